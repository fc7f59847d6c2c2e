"""Vessels of the invented sea: voyages, scenes, twos, pilots and ships that pass."""
