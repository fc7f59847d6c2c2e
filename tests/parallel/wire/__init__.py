"""Tests of what travels between tasks and driver."""
