"""Tests of the harness of the benchmarks."""
