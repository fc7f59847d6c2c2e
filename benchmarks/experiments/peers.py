"""Side by side: the same events, the same detections, the same machine, the same run, in the words of other engines.

    wayeb bench peers [--only duckdb,flink-sql]

Each peer runs in a process of its own (`benchmarks.peers`), one after the other: nothing of one is in another's memory.
Its detections are compared with ours, as sets of (pattern, entity, time), before its times count; one that differs is
reported as wrong. A peer that cannot express something, or is not installed, gets a line of the table like any other.

*seconds* is the median of warm passes, patterns compiled, from events in memory, in the peer's best form, to detections
in memory. *cold start* is a whole process, from its start to the six patterns' detections of 1,000 events in a file;
the median of three. *lines* are those that the user writes: neither blank nor comment, nor those that only serve the
measurement.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks import REPOSITORY
from benchmarks.harness.measure import Bound, Experiment, Figure, start
from benchmarks.harness.record import Value
from benchmarks.inputs.fleet_events import FOLDER, fleet_file
from benchmarks.peers.peer import MATCH_TASKS, TASKS, Form, MissingError
from benchmarks.peers.peer_process import DETECTIONS, NEEDED

OURS = "wayeb"
# In the order of the table; ours first, since the others are compared with it.
MODULES = (
    "in_wayeb",
    "in_polars",
    "in_duckdb",
    "in_duckdb_match",
    "in_re",
    "in_hyperscan",
    "in_esper",
    "in_siddhi",
    "in_flink_cep",
    "in_flink_sql",
    "in_trino",
    "in_spark",
    "in_clips",
)
SMALL = {"quick": 20_000, "usual": 100_000, "full": 200_000}
AT_ONCE = (OURS, "polars", "duckdb", "re")  # the quick size runs only these, and only the six patterns
LARGE = {"quick": None, "usual": 2_000_000, "full": 10_000_000}  # events, for peers that finish in time
COLD_EVENTS = 1_000
COLD_STARTS = {"quick": 1, "usual": 3, "full": 3}
BUDGET_S = {"quick": 2.0, "usual": 10.0, "full": 20.0}
IN_TIME = 3  # budgets, for a whole process with one pass over the large file, loading included
HOPELESS = 20  # budgets, by the time for the small file: not even tried
PATIENCE_S = 900  # a peer that takes longer is reported as failed

Detections = set[tuple[str, int, int]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a peer's process: seconds of each warm pass, processor seconds, and detections, by task."""

    wall_s: float
    seconds: dict[str, list[float]]
    processor_s: dict[str, list[float]]
    detections: dict[str, Detections]
    versions: dict[str, str]
    reading_s: float | None  # the time of reading alone, where the clock includes it


class FailedError(Exception):
    """A peer's process ended in an error; the text is its last output."""


class TooSlowError(FailedError):
    """The peer did not finish in time."""


def forms() -> list[Form]:
    return [importlib.import_module(f"benchmarks.peers.{module}").FORM for module in MODULES]


def ask(
    form: Form, command: list[str], n_events: int, tasks: list[str], budget_s: float, patience_s: float = PATIENCE_S
) -> Answer:
    """Runs a peer's process over the events and reads its results."""
    with tempfile.TemporaryDirectory() as folder:
        words = [str(events_for(form, n_events)), folder, "--budget-s", str(budget_s), "--tasks"]
        words += [f"{task}={','.join((TASKS | MATCH_TASKS)[task])}" for task in tasks]
        began = time.perf_counter()
        # A session of its own: its children end with it, or a JVM would run beside the next peer.
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*command, *words], cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        try:
            out, err = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired as fault:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise TooSlowError(f"no answer within {patience_s:.0f} s") from fault
        wall_s = time.perf_counter() - began
        report = Path(folder, "report.json")
        if process.returncode or not report.exists():
            said = (err or out).strip().splitlines()
            raise FailedError(said[-1] if said else f"ended with {process.returncode}")
        told = json.loads(report.read_text())
        return Answer(
            wall_s,
            {task: told[task]["seconds"] for task in tasks},
            {task: told[task]["processor_s"] for task in tasks},
            {task: read_detections(Path(folder), task) for task in tasks},
            told.get("versions", {}),
            told.get("reading_s"),
        )


def events_for(form: Form, n_events: int) -> Path:
    """The fleet's events, for some as CSV with times in milliseconds: made beforehand, outside of every clock."""
    parquet = fleet_file(n_events)
    path = FOLDER / f"fleet-{n_events}.csv"
    if form.columns == "parquet":
        return parquet
    if not path.exists():
        table = pq.read_table(parquet, columns=NEEDED)
        table = table.set_column(1, "ts", table["ts"].cast(pa.int64()))
        unfinished = path.with_suffix(".tmp")
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        pyarrow.csv.write_csv(table, unfinished, options)
        unfinished.rename(path)
    return path


def read_detections(folder: Path, task: str) -> Detections:
    """The detections of a Parquet file, or of a CSV file without a header, with times in milliseconds."""
    if (folder / f"{task}.parquet").exists():
        table = pq.read_table(folder / f"{task}.parquet")
    elif not (folder / f"{task}.csv").stat().st_size:
        return set()
    else:
        names = pyarrow.csv.ReadOptions(column_names=DETECTIONS.names)
        table = pyarrow.csv.read_csv(folder / f"{task}.csv", read_options=names)
    ts = table["ts"].cast(pa.int64())
    return set(zip(table["pattern"].to_pylist(), table["entity"].to_pylist(), ts.to_pylist(), strict=True))


def difference(ours: Detections, theirs: Detections) -> str | None:
    """How their answer is wrong, with an example; None if it is right."""
    absent, extra = ours - theirs, theirs - ours
    if not absent and not extra:
        return None
    example = min(absent) if absent else min(extra)
    return f"{len(absent)} of {len(ours)} detections not found, {len(extra)} that are none, such as {example}"


@dataclass(slots=True)
class Comparison:
    """The rows of the table while peers run, and how ours answered each (events, task)."""

    experiment: Experiment
    budget_s: float
    ours: dict[int, Answer]
    tasks: tuple[str, ...] = tuple(TASKS)
    faults: int = 0

    def add(self, form: Form, small: int, large: int | None) -> None:
        row = {"peer": form.title, "form": form.form}
        try:
            command = form.start()
        except MissingError as fault:
            self.experiment.row(**row, said=f"missing: {fault}")
            return
        tasks = [task for task in self.tasks if task not in form.cannot]
        try:
            n_starts = COLD_STARTS[self.experiment.size]
            cold_s = statistics.median(ask(form, command, COLD_EVENTS, ["six"], 0.0).wall_s for _ in range(n_starts))
            answer = ask(form, command, small, tasks, self.budget_s)
            self.compare(form, answer, small, cold_s)
            if large is None:
                return
            if self.is_in_time(form, command, answer, small, large):
                self.compare(form, ask(form, command, large, tasks, self.budget_s), large, cold_s)
            else:
                self.experiment.row(**row, task="six", events=large, said="too slow for so many events")
        except FailedError as fault:
            self.faults += 1
            self.experiment.row(**row, said=f"failed: {fault}")

    def is_in_time(self, form: Form, command: list[str], answer: Answer, small: int, large: int) -> bool:
        """Whether the peer may try the large file. The trial decides: an engine whose every job takes a second would
        seem too slow by its time for the small one."""
        by_small_s = statistics.median(answer.seconds["six"]) * large / small
        if form.name == OURS or by_small_s <= self.budget_s:
            return True
        if by_small_s > HOPELESS * self.budget_s:
            return False
        try:
            ask(form, command, large, ["six"], 0.0, IN_TIME * self.budget_s)
        except TooSlowError:
            return False
        return True

    def compare(self, form: Form, answer: Answer, n_events: int, cold_s: float) -> None:
        ours = self.ours.setdefault(n_events, answer)
        self.experiment.record.versions.update({**form.versions, **answer.versions})
        for task in self.tasks:
            row: dict[str, Value] = {"peer": form.title, "form": form.form, "task": task, "events": n_events}
            if task in form.cannot:
                self.experiment.row(**row, said=f"not expressed: {form.cannot[task]}")
                continue
            wrong = difference(ours.detections[task], answer.detections[task])
            if wrong is not None:
                self.faults += 1
                self.experiment.row(**row, said=f"wrong: {wrong}")
                continue
            seconds, used_s = answer.seconds[task], statistics.median(answer.processor_s[task])
            middle_s = statistics.median(seconds)
            measured = f"{form.name}, {task}, {n_events} events"
            self.experiment.record.repeats_s[measured] = seconds
            if form.name != OURS:
                self.experiment.yardsticks([measured])
            self.experiment.row(
                **row,
                detections=len(answer.detections[task]),
                seconds=middle_s,
                million_per_s=n_events / middle_s / 1e6,
                low=n_events / max(seconds) / 1e6,
                high=n_events / min(seconds) / 1e6,
                processor_s=used_s,
                times_ours=middle_s / statistics.median(ours.seconds[task]),
                reading_s=answer.reading_s,
                cold_start_s=cold_s,
                lines=form.lines(task),
            )


def main() -> None:
    known = {form.name: form for form in forms()}
    parser = argparse.ArgumentParser(prog="wayeb bench peers")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", help=f"some of {', '.join(known)}, with commas; ours is always there")
    only = [name for name in parser.parse_args().only.split(",") if name]
    unknown = [name for name in only if name not in known]
    if unknown:
        parser.error(f"no peer is called {', '.join(unknown)}; there are {', '.join(known)}")
    experiment = start("peers", "the same patterns in the words of other engines, detections compared")
    quick = experiment.size == "quick"
    comparison = Comparison(experiment, BUDGET_S[experiment.size], {}, ("six",) if quick else tuple(TASKS))
    wanted = only or (AT_ONCE if quick else tuple(known))
    chosen = [form for name, form in known.items() if name in wanted or name == OURS]
    for number, form in enumerate(chosen):
        experiment.progress.step(number + 1, len(chosen), f"{form.title}, peer")
        with experiment.watched():
            comparison.add(form, SMALL[experiment.size], LARGE[experiment.size])
        if form.name == OURS and comparison.faults:
            raise SystemExit("peers: ours gave no answer, so there is nothing to compare the others with")
    n_most = max(comparison.ours)
    with experiment.watched():
        again = ask(known[OURS], known[OURS].start(), n_most, ["six"], comparison.budget_s)
    first_s, last_s = (statistics.median(one.seconds["six"]) for one in (comparison.ours[n_most], again))
    # All others are divided by the first: how far its time has moved meanwhile says how far to trust them.
    experiment.report("ours once more after all others, over the first time", last_s / first_s, "x")
    experiment.note("Peers of the JVM read the events as CSV, made from the Parquet file beforehand.")
    experiment.figure(
        Figure(
            "Events recognised per second, by task",
            "peer",
            "million_per_s",
            series="task",
            panel="events",
            low="low",
            high="high",
            kind="bars",
            log="y",
        )
    )
    faults = Bound("peers that failed or answered otherwise", comparison.faults, 0, "at most", "")
    experiment.bound(faults, at_every_size=True)
    experiment.finish()


if __name__ == "__main__":
    main()
