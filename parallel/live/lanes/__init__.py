"""The lanes of a live stream whose patterns have levels: the loop that works by level, their states, where each is."""
