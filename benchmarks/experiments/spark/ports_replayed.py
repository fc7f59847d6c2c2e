"""Replays half a year at sea with 220 ports in an hour and in half an hour, and finds how much faster it could be.

The replay runs 4,320 and 8,640 times as fast as the sea does, for three minutes of each (`--full`: all of the half
year); it looks for four patterns at each of the 220 ports, by entity and by pattern. Then it finds the breaking point,
the speed-up at which the sources begin to wait for the recognisers, a ratio of 0.1, by steps and halves of short runs;
it counts once a longer run has held it too. `watched_replay` says what sources and recognisers are, and `ports_sea` who
sails there.

analysis: 1.2 messages a second become some 5,000 and 10,000. That is so little that a batch costs what an empty one
costs: latency is that of the batches, and the breaking point lies where events outweigh them.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.measure import Bound, Experiment, Figure, start
from benchmarks.inputs.ports_sea import HALF_A_YEAR_DAYS, SEED, port_patterns, sea_file
from benchmarks.replays.highest_speed import find_highest
from benchmarks.replays.watched_replay import LIMIT, Replayed, Setup, Subject, recognisers, replay
from wayeb_py.parallel.logs.replay import MAX
from wayeb_py.parallel.stream.plan import Scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_CORES = 2
SCHEMES: tuple[Scheme, ...] = ("partition", "pattern")
HALF_A_YEAR_S = HALF_A_YEAR_DAYS * 86_400
SPEEDS = (4_320.0, 8_640.0)
CONFIRMED_OVER = 5.0  # times the seconds of a probe
# Days of the data, seconds of a slice (none: all of it), of a probe (none: no breaking point), precision of that.
SIZES = {
    "quick": (1.0, 1.0, None, 1.1),
    "usual": (20.0, 180.0, 12.0, 1.1),
    "full": (HALF_A_YEAR_DAYS, None, 60.0, 1.05),
}


@dataclass(frozen=True, slots=True)
class Coast:
    """The runs of one subject."""

    experiment: Experiment
    session: SparkSession
    subject: Subject

    def slice(self, scheme: Scheme, speed: float, seconds: float) -> None:
        """Replays a part of the half year, or all of it, at a speed."""
        run = self._run("slice", scheme, speed, seconds)
        what = f"back-pressure, {scheme}, speed-up {speed:,.0f}"
        self.experiment.bound(Bound(what, run.steady.ratio, LIMIT, "at most", "of the time"))

    def breaking_point(self, scheme: Scheme, seconds: float, precision: float) -> None:
        """Finds the speed-up at which back-pressure passes the limit."""
        most = replay(self.experiment, self.session, self._setup(scheme, MAX), seconds).steady.taken_per_s
        guess = most / self.subject.events_per_s()

        def holds(speed: float, seconds: float = seconds, kind: str = "probe") -> bool:
            return self._run(kind, scheme, speed, seconds).steady.ratio < LIMIT

        highest = find_highest(holds, guess, precision, step=1.5)
        while highest and not holds(highest, CONFIRMED_OVER * seconds, "confirmed"):
            highest /= precision
        self.experiment.report(f"breaking point, {scheme}", highest, "times real time")
        events_per_s = highest * self.subject.events_per_s()
        self.experiment.report(f"breaking point, {scheme}", events_per_s, "events/s")
        if highest:
            self.experiment.report(f"half a year takes, {scheme}", HALF_A_YEAR_S / highest, "s")

    def _run(self, kind: str, scheme: Scheme, speed: float, seconds: float) -> Replayed:
        run = replay(self.experiment, self.session, self._setup(scheme, speed), seconds)
        self.experiment.row(kind=kind, **{"speed-up": speed}, **run.row())
        return run

    def _setup(self, scheme: Scheme, speed: float) -> Setup:
        return Setup(self.subject, scheme, N_CORES, N_CORES, speed)


def main() -> None:
    experiment = start("ports_replayed", f"220 ports, half a year in an hour and faster, local[{N_CORES}]", SEED)
    days, slice_s, probe_s, precision = SIZES[experiment.size]
    quick = experiment.size == "quick"
    slices = [(scheme, speed) for scheme in SCHEMES for speed in SPEEDS][-1 if quick else 0 :]
    with tempfile.TemporaryDirectory(prefix="wayeb-ports-") as folder:
        subject = Subject("220 ports", sea_file(days), port_patterns(Path(folder)))
        with recognisers(N_CORES, quick=quick) as session:
            coast = Coast(experiment, session, subject)
            for number, (scheme, speed) in enumerate(slices):
                experiment.progress.step(number + 1, len(slices), f"{scheme}, speed-up {speed:,.0f}: slice")
                coast.slice(scheme, speed, slice_s or HALF_A_YEAR_S / speed)
            if probe_s is not None:
                for scheme in SCHEMES:
                    coast.breaking_point(scheme, probe_s, precision)
    experiment.figure(
        Figure("220 ports replayed", "speed-up", "back-pressure", "scheme", log="x", limit=LIMIT, limit_name="held")
    )
    experiment.finish()


if __name__ == "__main__":
    main()
