"""Tests of the pattern files of patterns/, over samples and real data."""
