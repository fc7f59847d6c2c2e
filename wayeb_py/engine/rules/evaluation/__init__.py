"""Conditions of rules are evaluated: each by itself over arrays, or all that are asked of the same rows at once."""
