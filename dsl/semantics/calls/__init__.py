"""Calls of functions become values and predicates: their arguments checked, one file for each kind of function."""
