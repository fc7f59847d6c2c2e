"""Tests of event files: reading, writing, sorting, damage."""
