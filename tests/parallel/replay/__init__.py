"""Tests of recorded events sent again."""
