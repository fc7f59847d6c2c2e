"""Measures back-pressure against recognition parallelism, for 1 to 6 sources: fleet and sea, by entity and by pattern.

Each source offers events at a rate of its own, so M sources offer M times as much; `watched_replay` says what sources
and recognisers are. The rate of a source is half of what the fewest recognisers take from one source that offers too
much, so the grid goes from sources that never wait to sources that wait most of the time.

For each number of sources, besides:

- *sources alone*: what they deliver when nothing holds them up. The same columns are read, at the speed `max`, in
  place, for a pattern that never holds; the measured rate shows that nothing waits, not the ratio, which at `max` says
  only that more could be offered.
- *held*: the highest rate at which the ratio stays below 0.1, by steps and halves (`highest`), within 30 %.
  Beside it stands the rate at which 10,000 such vehicles, or vessels, really report, by the times of the data.

analysis: a batch has costs of its own, so a stream that is offered more has larger batches and takes more. More
recognisers help while there are cores for them; beyond that they cost: each shard, or group, is a task of every batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

import wayeb_py
from benchmarks import REPOSITORY
from benchmarks.experiments.maritime import SIX, maritime_file
from benchmarks.harness.measure import Experiment, Figure, start
from benchmarks.inputs.fleet_events import SIX_PATTERNS, fleet_file
from benchmarks.replays.highest_speed import find_highest
from benchmarks.replays.watched_replay import BUFFER_S, LIMIT, Setup, Subject, recognisers, replay
from wayeb_py.parallel.logs.replay import MAX
from wayeb_py.parallel.stream.plan import Scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_CORES = 2
N_REPORTING = 10_000  # vehicles, or vessels, of a large fleet
SHARE = 0.5  # a source's rate, as a share of what is taken from one that offers too much
QUICK_RATE = 20_000.0  # events a second of a source where nothing is calibrated
PRECISION = 1.3
SCHEMES: tuple[Scheme, ...] = ("partition", "pattern")
# Events of the fleet and of the sea, seconds of a buffer and of a run, numbers of sources and of recognisers.
SIZES = {
    "quick": (100_000, 50_000, 3.0, 1.0, [1, 6], [1]),
    "usual": (2_000_000, 1_000_000, 3.0, 3.0, [1, 3, 6], [1, 2]),
    "full": (2_000_000, 1_000_000, BUFFER_S, 10.0, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
}
# They need the same columns as the six patterns, and never hold.
NOTHING_OF_FLEET = """
pattern Nothing := (status = "" and ignition = true and speed < -1 and travelled < -1 and satellites < -1
    and accelerating = true)
"""
NOTHING_AT_SEA = """
pattern Nothing := (type = "" and speed < -1 and course < -1 and heading < -1 and moved() < 0 m)
"""


def fleet(n_events: int) -> tuple[Subject, Subject]:
    """The fleet with six patterns, and with one that never holds."""
    text = SIX_PATTERNS.read_text()
    events = fleet_file(n_events)
    nothing = wayeb_py.compile(text[: text.index("let ")] + NOTHING_OF_FLEET)
    return Subject("fleet", events, wayeb_py.compile(SIX_PATTERNS)), Subject("fleet", events, nothing, occurs=False)


def maritime(n_events: int) -> tuple[Subject, Subject]:
    """The invented sea with six patterns, and with one that never holds."""
    library = REPOSITORY / "patterns/maritime.sre"
    events = maritime_file(n_events)
    stream = (REPOSITORY / "patterns/maritime/vessels.sre").read_text()
    nothing = wayeb_py.compile(stream[: stream.index("let ")] + NOTHING_AT_SEA)
    return Subject("maritime", events, wayeb_py.compile(library).select(SIX)), Subject(
        "maritime", events, nothing, occurs=False
    )


def reports_per_s(subject: Subject) -> float:
    """How many events a second `N_REPORTING` entities report, if each reports like those of the data."""
    entities: int = pc.count_distinct(pq.read_table(subject.events, columns=[subject.wanted.key.name])[0]).as_py()
    return subject.events_per_s() / entities * N_REPORTING


@dataclass(slots=True)
class Grid:
    """The runs, and what the first of them showed."""

    experiment: Experiment
    buffer_s: float
    seconds: float
    rates: dict[tuple[str, str], float] = field(default_factory=dict)  # rate of a source, in events a second
    most: dict[tuple[str, str], float] = field(default_factory=dict)  # taken, with a recogniser for each core
    n_cells: int = 0

    def calibrate(self, session: SparkSession, subject: Subject, scheme: Scheme, n: int) -> None:
        """Chooses the rate at which each source of a subject offers."""
        if self.experiment.size == "quick":
            self.rates[subject.name, scheme] = QUICK_RATE
            return
        most = replay(self.experiment, session, Setup(subject, scheme, 1, n, MAX), self.seconds).steady.taken_per_s
        self.rates[subject.name, scheme] = SHARE * most
        self.experiment.report(f"a source offers, {subject.name}, {scheme}", SHARE * most, "events/s")

    def measure(self, session: SparkSession, subject: Subject, scheme: Scheme, m: int, n: int) -> None:
        """Measures one cell: the ratio of `m` sources with `n` recognisers."""
        speed = m * self.rates[subject.name, scheme] / subject.events_per_s()
        run = replay(self.experiment, session, Setup(subject, scheme, m, n, speed, self.buffer_s), self.seconds)
        self.experiment.row(what=f"{subject.name}, {scheme}", **run.row())
        if n == N_CORES:
            known = self.most.get((subject.name, scheme), 0.0)
            self.most[subject.name, scheme] = max(known, run.steady.taken_per_s)
        self.n_cells += 1

    def alone(self, session: SparkSession, nothing: Subject, m: int) -> None:
        """Measures how much `m` sources deliver where nothing slows them."""
        setup = Setup(nothing, "source", m, N_CORES, MAX)
        run = replay(self.experiment, session, setup, self.seconds)
        self.experiment.row(
            what=f"{nothing.name}, sources alone",
            **setup.facts(),
            **{"sources alone, events/s": run.steady.taken_per_s},
        )

    def held(self, session: SparkSession, subject: Subject, scheme: Scheme, m: int) -> None:
        """Finds the highest rate at which `m` sources hardly wait, and how many real fleets that is."""
        natural = subject.events_per_s()
        found: dict[float, float] = {}

        def holds(rate: float) -> bool:
            setup = Setup(subject, scheme, m, N_CORES, rate / natural, self.buffer_s)
            found[rate] = replay(self.experiment, session, setup, self.seconds).steady.ratio
            return found[rate] < LIMIT

        highest = find_highest(holds, self.most[subject.name, scheme], PRECISION, step=PRECISION)
        self.experiment.row(
            what=f"{subject.name}, {scheme}",
            **Setup(subject, scheme, m, N_CORES, highest / natural, self.buffer_s).facts(),
            **{"held events/s": highest, "ratio when held": found.get(highest), "probes": len(found)},
            **{"times the real rate": highest / reports_per_s(subject)},
        )


def main() -> None:
    experiment = start("back_pressure", "back-pressure of 1 to 6 sources against recognisers, local[recognisers]")
    n_fleet, n_maritime, buffer_s, seconds, n_sources, n_recognisers = SIZES[experiment.size]
    quick = experiment.size == "quick"
    pairs = [fleet(n_fleet)] if quick else [fleet(n_fleet), maritime(n_maritime)]
    kinds: list[tuple[Subject, Scheme]] = [
        (one, scheme) for one, _ in pairs for scheme in SCHEMES[-1 if quick else 0 :]
    ]
    for subject, _ in pairs:
        experiment.report(f"{N_REPORTING:,} entities report, {subject.name}", reports_per_s(subject), "events/s")
    grid = Grid(experiment, buffer_s, seconds)
    of = len(n_recognisers) * len(kinds) * len(n_sources)
    for n in n_recognisers:
        with recognisers(n, quick=quick) as session:
            for subject, scheme in kinds:
                if n == n_recognisers[0]:
                    grid.calibrate(session, subject, scheme, n)
                for m in n_sources:
                    experiment.progress.step(grid.n_cells + 1, of, f"{subject.name}, {scheme}, {m} to {n}: cell")
                    grid.measure(session, subject, scheme, m, n)
            if n == N_CORES and not quick:
                for m in n_sources:
                    for _, nothing in pairs:
                        grid.alone(session, nothing, m)
                    for subject, scheme in kinds:
                        grid.held(session, subject, scheme, m)
    title = "Back-pressure against recognisers"
    experiment.figure(Figure(title, "recognisers", "back-pressure", "sources", panel="what", limit=LIMIT))
    if not quick:
        experiment.figure(Figure("The highest rate held", "sources", "held events/s", "what", log="y"))
    experiment.finish()


if __name__ == "__main__":
    main()
