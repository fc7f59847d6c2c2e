"""Processor seconds of a tree of processes: a child's use counts as ours, while it lives and when it has ended."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.harness.processor_seconds import machine_cpu_s, tree_cpu_s

BURNT_S = 0.3
BURN = f"import sys, time\nwhile time.process_time() < {BURNT_S}: pass\nprint('burnt', flush=True)\nsys.stdin.read()"
PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])"


def test_what_a_grandchild_uses_is_ours_while_it_lives_and_afterwards() -> None:
    before_s, machine_before_s = tree_cpu_s(), machine_cpu_s()
    child = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"burnt\n"
    alive_s = tree_cpu_s() - before_s
    child.communicate()
    ended_s = tree_cpu_s() - before_s
    machine_after_s = machine_cpu_s()
    assert alive_s > 0.9 * BURNT_S
    assert ended_s >= 0.9 * alive_s
    assert machine_before_s is not None
    assert machine_after_s is not None
    assert machine_after_s - machine_before_s > 0.9 * BURNT_S
