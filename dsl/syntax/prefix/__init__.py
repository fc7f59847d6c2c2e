"""The older prefix form of patterns: which texts are in it, and how they become trees of this language."""
