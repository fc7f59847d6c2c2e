"""Damaged files of every kind end in a message or a bad row: no signal, no traceback, and the same whenever read.

One seed always, the others with `soak`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.strategies import seeds

N_SEEDS = int(os.environ.get("WAYEB_DAMAGE_SEEDS", "4"))


@pytest.mark.parametrize("seed", seeds(N_SEEDS, always=1))
def test_files_that_are_damaged_bit_by_bit_take_no_process_down(seed: int) -> None:
    script = Path(__file__).with_name("damaging.py")
    words = [sys.executable, str(script), str(seed), "420"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Exception ignored" not in done.stderr
    assert "refused" in done.stdout
    assert "read" in done.stdout
