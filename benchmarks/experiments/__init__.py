"""The experiments, one a file: each measures, checks its answers, and leaves a record."""
