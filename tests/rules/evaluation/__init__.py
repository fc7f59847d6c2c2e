"""Tests of conditions evaluated at once, and of rules over recorded data."""
