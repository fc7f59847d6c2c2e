"""Tests of batch runs on Spark."""
