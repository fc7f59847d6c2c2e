"""Matches beyond their ends: what is measured over their events, and every start of them."""
