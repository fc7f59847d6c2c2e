"""Tests of health, back-pressure and last words of streams."""
