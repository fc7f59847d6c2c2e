"""Tests of health, back-pressure and the last line of streams."""
