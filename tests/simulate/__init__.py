"""Tests of generators of fleets and seas."""
