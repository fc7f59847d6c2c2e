"""Tests of what providers send, converted."""
