"""Recorded events are sent again by their own time, to a topic or into a folder."""
