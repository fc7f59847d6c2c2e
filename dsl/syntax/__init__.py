"""The text of a .sre file becomes a tree, and a tree becomes text; what is wrong with the text becomes messages."""
