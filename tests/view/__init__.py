"""Tests of maps, charts and notebooks."""
