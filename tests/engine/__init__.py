"""Tests of recognition: the engine against the oracle, state, cleaning, kernels."""
