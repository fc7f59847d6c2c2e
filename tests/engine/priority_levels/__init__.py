"""Tests of levels: what waits, what is shared, what is shed."""
