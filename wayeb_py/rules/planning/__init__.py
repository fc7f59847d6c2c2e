"""A rule as members and conditions becomes a tree of joins, by what is known of the sizes, and the tree a network."""
