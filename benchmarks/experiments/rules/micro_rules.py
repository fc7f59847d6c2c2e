"""Nineteen benchmarks of rule engines, after those of the gesture engine PARTE, against CLIPS with equal firings.

Fifteen are small; four are sixteen gestures with 0 and 10 touches of noise for each, over 1 and 2 streams.

Each is a set of rules over events; `inputs/micro_rules.py` and `inputs/gesture_rules.py` describe them, and make the
touches of the gestures from recordings. Both sides begin with the text of the
rules, which they read and build into their networks once. CLIPS joins in the order in which a rule is written; ours
plans by the first rows that come, and builds its networks again where it then knows better: that is building too. So
one run of ours plans, and its plans are forced in those that are timed. The record gives building separately, and, with
a run that plans, in the whole. Then both take in a load of events and fire once for every match; here that is a row of
the output, through the same recogniser that runs any file. Each side gets the events as it takes them best: ours reads
an Arrow file; CLIPS is tried with one text file, with files of 100 and of 20 facts, and with its own binary form, and
the quickest of these is timed. (One file of facts with arithmetic in its tests takes CLIPS a time that grows with the
square of the facts, since it frees the numbers that it has computed only between files.) CLIPS keeps facts for ever, so
joins here have a window of time that holds all events.

On one core both are timed by processor seconds, which other processes do not disturb; on two, where ours may use
threads and CLIPS has one, by the wall clock. As in the paper the spread over the repeats, the standard deviation over
the mean, stands beside the time.

Analysis: CLIPS takes one fact at a time through a network of nodes, by interpreted tests; here a batch of events goes
through a node at once: constants that a column is compared with become cells of one axis, arithmetic a program that a
compiled loop runs over blocks of rows, joins look up sorted runs. So the gain is greatest where many tests are done on
many events, and least where few events make many matches, all of which have to be put in order and written out. Every
touch is looked at by 64 control points, and one in some dozen is in one of them; for CLIPS these are 64 patterns with
six tests each, here cells of three axes. Joins by stroke are small on both sides.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

import wayeb_py
from benchmarks.harness.measure import Bound, Experiment, asked_size, start
from benchmarks.inputs.gesture_rules import gesture_benchmarks
from benchmarks.inputs.micro_rules import SEED, MicroBenchmark, Tables, in_clips, in_wayeb, micro_benchmarks
from tools.gesture_events import RECORDINGS

N_EVENTS = {"quick": 20_000, "usual": 100_000, "full": 1_000_000}
N_STROKES = {"quick": 140, "usual": 3_150, "full": 14_000}
REPEATS = {"quick": 3, "usual": 3, "full": 5}
MOST_TRIED = 2_000  # facts of a table that decide how CLIPS gets them
OWN_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
CORES = {n: f"{n} core{'s' if n > 1 else ''}" for n in (1, 2) if n <= len(OWN_CORES)}
LEAST_MEAN, LEAST = 20.0, 1.0


def n_rows(columns: Any) -> int:
    return len(next(iter(columns.values())))


# Ours.


def write_events(tables: Tables, folder: Path) -> dict[str, Path]:
    """Every table as a stream of events, one a millisecond."""
    paths = {}
    for name, columns in tables.items():
        n = n_rows(columns)
        events = {"finger": np.zeros(n, dtype=np.int64), "ts": np.arange(n, dtype=np.int64), **columns}
        paths[name] = folder / f"{name}.arrow"
        table = pa.table(events)
        with pa.OSFile(str(paths[name]), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return paths


def read_events(path: Path) -> pa.Table:
    """The events of a file, as a run of any file reads them."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


class Ready:
    """Rules from their text, read, planned and built into networks, as CLIPS's are, once for each run to come;
    `planning_s` is a run that plans by its rows."""

    def __init__(self, benchmark: MicroBenchmark, folder: Path, n_runs: int) -> None:
        self.paths = write_events(benchmark.tables, folder)
        self.schemas = {name: read_events(path).schema for name, path in self.paths.items()}
        (folder / "rules.sre").write_text(in_wayeb(benchmark))
        begin = time.process_time()
        self.patterns = wayeb_py.compile(folder / "rules.sre")
        first = self._made({})
        self.built_s = time.process_time() - begin
        self.waiting = [first, self._made({})]
        self.run()  # loads what it needs
        _, self.planning_s, _ = timed(self.run)
        rules = first.rules
        assert rules is not None
        self.waiting = [self._made(rules.running.in_time.trees) for _ in range(n_runs)]

    def _made(self, plans: Mapping[str, str]) -> wayeb_py.Recogniser:
        recogniser = wayeb_py.Recogniser(self.patterns, saves=False, plans=plans)
        for name, schema in self.schemas.items():
            recogniser.bind(schema, name)
        assert recogniser.rules is not None
        assert recogniser.rules.running  # makes the networks
        return recogniser

    def run(self) -> int:
        """The number of all firings: a row of the output for each."""
        recogniser = self.waiting.pop()
        found = [recogniser.feed(read_events(path), name) for name, path in self.paths.items()]
        return sum(map(len, found)) + len(recogniser.finish())


# CLIPS.


def clips_network(benchmark: MicroBenchmark) -> Any:
    """An environment with the rules."""
    import clips

    environment = clips.Environment()
    environment.build("(defglobal ?*found* = 0)")
    for name, columns in benchmark.tables.items():
        slots = " ".join(f"(slot {column} (type INTEGER))" for column in columns)
        environment.build(f"(deftemplate {name} {slots})")
    for rule in benchmark.rules:
        environment.build(in_clips(rule, {name: list(columns) for name, columns in benchmark.tables.items()}))
    return environment


def write_facts(tables: Tables, folder: Path, most: int | None = None) -> dict[str, list[Path]]:
    """The facts as CLIPS reads them, by the way in which it reads; at most `most` of a table, evenly spread over it."""
    folder.mkdir()
    lines = []
    for name, columns in tables.items():
        step = 1 if most is None else max(1, n_rows(columns) // most)
        lists = [values[::step].tolist() for values in columns.values()]
        slots = [f"({column} {{}})" for column in columns]
        lines += [f"({name} {' '.join(slots).format(*row)})\n" for row in zip(*lists, strict=True)]
    ways: dict[str, list[Path]] = {}
    for way, size in (("one file", len(lines)), ("files of 100 facts", 100), ("files of 20 facts", 20)):
        ways[way] = []
        for begin in range(0, len(lines), size):
            ways[way].append(folder / f"{size}_{begin}.facts")
            ways[way][-1].write_text("".join(lines[begin : begin + size]))
    ways["a binary file"] = [folder / "all.bin"]
    return ways


def save_binary(benchmark: MicroBenchmark, ways: dict[str, list[Path]]) -> None:
    """Has CLIPS write its binary form, from an environment without rules, so that none runs."""
    bare = clips_network(MicroBenchmark(benchmark.name, benchmark.tables, ()))
    bare.load_facts(str(ways["one file"][0]))
    bare.eval(f'(bsave-facts "{ways["a binary file"][0]}")')


def clips_of(environment: Any, paths: list[Path]) -> int:
    """The number of all firings."""
    environment.reset()
    for path in paths:
        if path.suffix == ".bin":
            environment.eval(f'(bload-facts "{path}")')
        else:
            environment.load_facts(str(path))
    n_fired: int = environment.run()
    return n_fired


def best_way(benchmark: MicroBenchmark, environment: Any, folder: Path) -> str:
    """How CLIPS takes in the facts of this benchmark most quickly, judged by some of them."""
    ways = write_facts(benchmark.tables, folder, MOST_TRIED)
    save_binary(benchmark, ways)
    seconds = {way: timed(partial(clips_of, environment, paths))[1] for way, paths in ways.items()}
    return min(seconds, key=seconds.__getitem__)


# Both.


def timed(task: Callable[[], int]) -> tuple[int, float, float]:
    """What a task returns, its processor seconds, and wall-clock seconds."""
    begin, begin_wall = time.process_time(), time.perf_counter()
    found = task()
    return found, time.process_time() - begin, time.perf_counter() - begin_wall


def measure(experiment: Experiment, benchmark: MicroBenchmark) -> dict[str, float]:
    """How many times as long CLIPS takes, by the number of cores that we have."""
    n_repeats = REPEATS[experiment.size]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ready = Ready(benchmark, folder, 1 + len(CORES) * n_repeats)
        begin = time.process_time()
        environment = clips_network(benchmark)
        clips_built_s = time.process_time() - begin
        way = best_way(benchmark, environment, folder / "tried")
        ways = write_facts(benchmark.tables, folder / "facts")
        if way == "a binary file":
            save_binary(benchmark, ways)
        tasks: dict[str, Callable[[], int]] = {
            f"ours, {told}": partial(on_cores, n, ready.run) for n, told in CORES.items()
        }
        tasks["CLIPS"] = partial(on_cores, 1, partial(clips_of, environment, ways[way]))
        processor: dict[str, list[float]] = {who: [] for who in tasks}
        wall: dict[str, list[float]] = {who: [] for who in tasks}
        firings = {"ours, warm": ready.run()}
        names = list(tasks)
        with experiment.watched():
            for nth in range(n_repeats):
                for who in names[nth % len(names) :] + names[: nth % len(names)]:
                    firings[who], processor_s, wall_s = timed(tasks[who])
                    processor[who].append(processor_s)
                    wall[who].append(wall_s)
    n_fired = firings["CLIPS"]
    experiment.check(f"{n_fired:,} firings of {benchmark.name}", set(firings.values()) == {n_fired} and n_fired > 0)
    times = {}
    for n, told in CORES.items():
        who, seconds = f"ours, {told}", processor if n == 1 else wall
        times[told] = statistics.median(seconds["CLIPS"]) / statistics.median(seconds[who])
    experiment.record.repeats_s |= {f"{benchmark.name}, {who}": some for who, some in processor.items()}
    experiment.yardsticks([f"{benchmark.name}, CLIPS"])
    for who, some in processor.items():
        ms = [1e3 * one for one in some]
        experiment.row(
            benchmark=benchmark.name, engine=who, events=sum(map(n_rows, benchmark.tables.values())), firings=n_fired,
            ms=statistics.median(ms), low=min(ms), high=max(ms),
            spread=statistics.stdev(some) / statistics.mean(some),
            build_ms=1e3 * (clips_built_s if who == "CLIPS" else ready.built_s),
            given=way if who == "CLIPS" else "an Arrow file",
        )  # fmt: skip
    for told, ratio in times.items():
        experiment.report(f"{benchmark.name}, CLIPS over ours, {told}", ratio, "x")
    ratio = (clips_built_s + statistics.median(processor["CLIPS"])) / (ready.built_s + ready.planning_s)
    experiment.report(f"{benchmark.name}, CLIPS over ours, building and one run", ratio, "x")
    return {**times, "building and one run": ratio}


def on_cores(n: int, task: Callable[[], int]) -> int:
    """What a task returns on `n` of the cores that this process began with."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(OWN_CORES[:n]))
    pa.set_cpu_count(n)
    return task()


def mean(times: Mapping[str, Mapping[str, float]], told: str) -> float:
    """The geometric mean of some benchmarks."""
    return math.exp(statistics.mean(math.log(one[told]) for one in times.values()))


def main() -> None:
    n_events, n_strokes = N_EVENTS[asked_size()], N_STROKES[asked_size()]
    title = f"nineteen benchmarks of rules, {n_events:,} events, {n_strokes:,} strokes, 1 and 2 cores"
    experiment = start("micro_rules", title, SEED)
    try:
        __import__("clips")
    except ImportError:
        experiment.missing("there is no clips; `pip install wayeb-py[peers]`")
    if not RECORDINGS.exists():
        experiment.missing(f"there is no {RECORDINGS.name}: the recordings of the $1 recognizer")
    small, gestures = micro_benchmarks(n_events), gesture_benchmarks(n_strokes)
    with tempfile.TemporaryDirectory() as folder:
        Ready(small[-1], Path(folder), 1).run()  # loads modules and kernels: `bench start_up` times those
    times = {}
    for number, benchmark in enumerate((*small, *gestures)):
        experiment.progress.step(number + 1, len(small) + len(gestures), "benchmark")
        times[benchmark.name] = measure(experiment, benchmark)
    parts = {
        "fifteen small ones": {one.name: times[one.name] for one in small},
        "four of gestures": {one.name: times[one.name] for one in gestures},
    }
    for told in CORES.values():
        what = f"CLIPS over ours, {told}, geometric mean"
        experiment.bound(Bound(f"{what} of nineteen", mean(times, told), LEAST_MEAN, "at least"))
        for part, own in parts.items():
            experiment.report(f"{what} of {part}", mean(own, told), "x")
        least = min(times, key=lambda name: times[name][told])
        experiment.bound(Bound(f"CLIPS over ours, {told}, the least ({least})", times[least][told], LEAST, "at least"))
    whole = "building and one run"
    experiment.report(f"CLIPS over ours, {whole}, geometric mean of nineteen", mean(times, whole), "x")
    for who in (*(f"ours, {told}" for told in CORES.values()), "CLIPS"):
        spreads = [float(str(row["spread"])) for row in experiment.record.rows if row["engine"] == who]
        experiment.report(f"spread over repeats, mean of nineteen, {who}", statistics.mean(spreads), "of the mean")
    experiment.bars("Benchmarks of rules", "benchmark", "ms", series="engine", log="y")
    experiment.finish()


if __name__ == "__main__":
    main()
