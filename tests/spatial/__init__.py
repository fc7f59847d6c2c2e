"""Tests of places: files, index, lookups, patterns that ask where."""
