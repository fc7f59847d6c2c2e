"""Vessels of the invented sea: voyages, scenes, duos, pilots and ships that pass."""
