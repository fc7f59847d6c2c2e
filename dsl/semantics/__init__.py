"""A tree becomes its meaning: names found, kinds and units checked; or a list of everything that is wrong."""
