"""The text of a .sre file becomes a tree, and a tree becomes text; mistakes in the text become messages."""
