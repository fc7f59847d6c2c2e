"""Measures how fast the engine is, as ratios to something that runs beside it on the same machine; checks the
answers."""

import os
from pathlib import Path

BENCHMARKS = Path(__file__).parent
REPOSITORY = BENCHMARKS.parent
N_THREADS = 2
# Polars reads this once, at its first import, so it stands before any experiment's imports.
os.environ["POLARS_MAX_THREADS"] = str(N_THREADS)
