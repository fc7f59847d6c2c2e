"""The language: the text of .sre files becomes a tree, and the tree becomes a meaning that the engine can compile."""
