"""Invented fleets and seas: events of any size, the same for the same seed, with what happens in them written down."""
