"""Measures the latency of three levels that come over one connection, as the middle load grows; with Flink.

A station has one feed with the lines of all vehicles or vessels in it; a field says which class each is of. Three
patterns of different priority read it, each about its class. The middle one is slowed by 20 µs an event, as the study
of 2019 loads operators that take time: by a spin of the same length here (`benchmarks/loads/slowed_station.py`) and in
Flink's middle function. The high and the low class have 500 lines a second, the middle one a share of the capacity, up
to twice. The stream runs on one core; the sender on another. A latency is from the moment when a line was due until
the line of its detection arrives, and what a sender is made to wait counts. *Ours, shedding* skips what the middle and
the low pattern have not come to after half a second; what it misses is counted, and it never invents a detection. This
is what is judged: without shedding, all levels wait once the memory for what waits is full. The lowest and the highest
load run several times in turn, and the medians count, as in `live_levels`.

Analysis: above the capacity events of the middle class wait. Here the loop reads on, and the highest level is done
first of everything that was read. Without shedding what waits grows until half a million events wait; then the stream
reads no more, and all levels wait. In Flink the middle function's buffers fill within a second, and the source waits
for room in them before it reads the next line, whatever its class.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.experiments.live.live_levels import (
    FLOOD,
    ROUNDS,
    check,
    growth,
    highest_p99,
    in_turn,
    middle_done,
    report,
    rounded,
    streams,
)
from benchmarks.harness.measure import Bound, Experiment, Figure, start
from benchmarks.loads.connections import Heard, free_ports, leave_core
from benchmarks.loads.offered import Offered
from benchmarks.loads.one_feed import FEED, hear_feed, text_of_feed
from benchmarks.loads.slowed_station import SLOWED
from benchmarks.loads.stations import station
from benchmarks.peers.peer import MissingError
from wayeb_py.parallel.health.gauge import FOLDER
from wayeb_py.parallel.health.totals import load_totals

SEED = 30
SHARES = {"quick": (0.0, 2.0), "usual": (0.0, 0.5, 0.9, 1.2, 2.0), "full": (0.0, 0.25, 0.5, 0.75, 0.9, 1.2, 1.5, 2.0)}
SECONDS = {"quick": (3.0, 5.0), "usual": (5.0, 10.0), "full": (10.0, 60.0)}  # that do not count, and that do
AN_EVENT_US = 20.0  # how much longer the middle pattern takes for an event
SHED = {"middle": "shed after 500 ms", "low": "shed after 500 ms"}
DECIDED_S = 1.5  # after which an event has been taken or shed: it may wait for twice as long as it says
JUDGED = "ours, shedding"
LEAST_BELOW = 20.0

Run = Callable[[list[Offered], float, Path], Heard]


def ours(clauses: dict[str, str]) -> Run:
    def run(offered: list[Offered], seconds: float, folder: Path) -> Heard:
        command, ports = station(text_of_feed(clauses), [FEED], folder)
        at = command.index("wayeb_py.cli")
        command[at : at + 1] = ["benchmarks.loads.slowed_station", str(AN_EVENT_US)]
        return hear_feed(command, offered, ports[FEED], seconds, folder)

    return run


def flink(offered: list[Offered], seconds: float, folder: Path) -> Heard:
    from benchmarks.peers.jvm.flink_levels import feed_command

    folder.mkdir(parents=True)
    (port,) = free_ports(1)
    return hear_feed(feed_command(port, {SLOWED: AN_EVENT_US}), offered, port, seconds, folder, calls=True)


def capacity(run: Run, warm_s: float, seconds: float, folder: Path) -> float:
    """How much of the middle level is done where more is sent than can be: a flood, then a little more than that."""
    most, rate = 0.0, FLOOD / 6
    for nth in range(2):
        heard = run(streams(rate, warm_s + seconds), warm_s + seconds, folder / str(nth))
        most = max(most, middle_done(heard, 1e6 * warm_s, 1e6 * (warm_s + seconds)))
        rate = 1.2 * most
    return most


def report_shed(experiment: Experiment, engine: str, share: float, heard: Heard, folder: Path, until_s: float) -> None:
    """Adds what was shed, by the stream's own counts, and how many detections were missed of those that had come out or
    were shed by the end of the run."""
    shed = load_totals(folder / "state" / FOLDER).sums.get("level_shed", {})
    for name, level in (("middle", "normal"), ("low", "low")):
        found, expected = heard.ts_us[name], heard.offered[name].expected_us()
        until_us = max(int(found.max(initial=-1)), int(1e6 * (until_s - DECIDED_S)))
        reached = int((expected <= until_us).sum())
        experiment.row(
            load=share, shed=f"{engine}, {level}", events=shed.get(level, 0),
            **{"events sent": heard.run.n_sent[name], "detections missed": reached - len(found), "of": reached},
        )  # fmt: skip


def main() -> None:
    experiment = start("live_feed", "latency by level against the middle load, three classes over one connection", SEED)
    leave_core()
    warm_s, seconds = SECONDS[experiment.size]
    shares = SHARES[experiment.size]
    engines: dict[str, tuple[Run, frozenset[str]]] = {
        "ours": (ours({}), frozenset()),
        JUDGED: (ours(SHED), frozenset(SHED)),
    }
    if "--without-flink" not in sys.argv:
        engines["Flink"] = (flink, frozenset())
    p99: dict[str, dict[float, list[float]]] = {}
    most = 0.0
    with tempfile.TemporaryDirectory() as name, experiment.watched():
        for engine, (run, may_miss) in engines.items():
            folder = Path(name) / engine.replace(", ", "-")
            try:
                if engine != JUDGED:  # shedding has the same capacity
                    most = capacity(run, warm_s, seconds, folder / "capacity")
            except MissingError as error:
                experiment.note(f"{engine} does not run here: {error}")
                continue
            experiment.report(f"capacity of the middle level, {engine}", most, "lines/s")
            runs = in_turn(shares, 1 if engine == "Flink" else ROUNDS[experiment.size])
            for number, (nth, share) in enumerate(runs):
                experiment.progress.step(number + 1, len(runs), f"{engine}: load")
                own = folder / f"{share:g}-{nth}"
                heard = run(streams(share * most, warm_s + seconds), warm_s + seconds, own)
                check(experiment, engine, share, heard, may_miss)
                p99.setdefault(engine, {}).setdefault(share, []).append(highest_p99(heard, warm_s, seconds))
                if nth == 0:
                    report(experiment, engine, share, heard, warm_s, seconds, may_miss=may_miss)
                if nth == 0 and may_miss:
                    report_shed(experiment, engine, share, heard, own, warm_s + seconds)
    last = shares[-1]
    for engine in ("ours", JUDGED):
        judged = {share: p99[engine][share] for share in (shares[0], last)}
        experiment.note(f"{engine}, p99 of the highest level by round, ms: {rounded(judged)}")
        grown = growth(judged, f"{engine}, p99 of the highest level at {last:g} times the capacity over unloaded")
        below = p99["Flink"][last][0] / statistics.median(p99[engine][last]) if "Flink" in p99 else None
        told = f"Flink's p99 of the highest class at its highest load over that of {engine}"
        if engine == JUDGED:
            experiment.bound(grown)
        else:
            experiment.report(grown.what, grown.value, "x")
        if below is not None and engine == JUDGED:
            experiment.bound(Bound(told, below, LEAST_BELOW, "at least"))
        elif below is not None:
            experiment.report(told, below, "x")
    experiment.figure(Figure("Latency by level", "load", "p99 ms", "engine and level", log="y"))
    experiment.figure(Figure("Detections within 100 ms", "load", "timely detections/s", "way"))
    experiment.figure(Figure("Resident memory", "load", "resident MB", "way"))
    experiment.finish()


if __name__ == "__main__":
    main()
