"""Tests of whole runs in one process: the runner, nightly state, given places."""
