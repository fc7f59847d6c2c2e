"""A rule as members and conditions becomes a tree of joins, by the known sizes, and the tree becomes a network."""
