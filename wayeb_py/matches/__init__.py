"""Matches with more than their ends: measures over their events, and all their starts."""
