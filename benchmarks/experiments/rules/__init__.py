"""Experiments about rules: the Train Benchmark, micro-benchmarks of rule engines, and what is kept."""
