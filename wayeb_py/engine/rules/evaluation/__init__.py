"""Evaluates conditions of rules: each by itself over arrays, or all conditions on the same rows at once."""
