"""Tests of the forms in which data travel between tasks and driver."""
