"""Tests of sessions, shipping, clusters."""
