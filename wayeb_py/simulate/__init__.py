"""Invented fleets and seas: events of any size, the same for the same seed, with a record of what happens in them."""
