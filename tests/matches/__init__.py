"""Tests of what matches remember."""
