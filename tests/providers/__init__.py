"""Tests of providers' files, converted."""
