"""Sixteen gestures as joins of control points, with 0 and 10 touches of noise for each, over 1 and 2 streams, against
CLIPS with equal firings.

`inputs/gesture_rules.py` makes the rules and the touches, from recordings; both sides are run and timed as in
`micro_rules`: the text of the rules read and built once, then the touches taken in, a firing for every match.

Analysis: every touch is looked at by 64 control points, and one in some dozen is in one of them; for CLIPS these are 64
patterns with six tests each, here cells of three axes. Joins by stroke are small on both sides.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from pathlib import Path

from benchmarks.experiments.rules.micro_rules import CORES, LEAST, LEAST_MEAN, Ready, measure
from benchmarks.harness.measure import Bound, asked_size, start
from benchmarks.inputs.gesture_rules import SEED, gesture_benchmarks
from tools.gesture_events import RECORDINGS

N_STROKES = {"quick": 140, "usual": 3_150, "full": 14_000}


def main() -> None:
    n_strokes = N_STROKES[asked_size()]
    experiment = start("gesture_rules", f"sixteen gestures as rules, {n_strokes} strokes, 1 and 2 cores", SEED)
    try:
        __import__("clips")
    except ImportError:
        experiment.missing("there is no clips; `pip install wayeb-py[peers]`")
    if not RECORDINGS.exists():
        experiment.missing(f"there is no {RECORDINGS.name}: the recordings of the $1 recognizer")
    benchmarks = gesture_benchmarks(n_strokes)
    with tempfile.TemporaryDirectory() as folder:
        Ready(benchmarks[0], Path(folder), 1).run()  # loads modules and kernels
    times = {}
    for number, benchmark in enumerate(benchmarks):
        experiment.progress.step(number + 1, len(benchmarks), "benchmark")
        times[benchmark.name] = measure(experiment, benchmark)
    for told in CORES.values():
        mean = math.exp(statistics.mean(math.log(one[told]) for one in times.values()))
        what = f"CLIPS over ours, {told}, geometric mean of four"
        experiment.bound(Bound(what, mean, LEAST_MEAN, "at least"))
        least = min(times, key=lambda name: times[name][told])
        experiment.bound(Bound(f"CLIPS over ours, {told}, the least ({least})", times[least][told], LEAST, "at least"))
    experiment.bars("Gestures as rules", "benchmark", "ms", series="engine", log="y")
    experiment.finish()


if __name__ == "__main__":
    main()
