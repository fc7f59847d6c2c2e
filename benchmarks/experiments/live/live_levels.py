"""Measures the latency of three levels as the middle load grows, from a TCP line to a line out; with Flink.

Three streams come over three connections, each with a pattern (`benchmarks/loads/offered.py`): `High` and `Low` get 500
lines a second, the middle one as many as a share of the capacity, up to twice. The stream runs on one core; the sender
on another. A latency is from the moment when a line was due until the line of its detection arrives; what has not
arrived when the run ends counts with the time until then. *Timely* are detections that come within 100 ms. The lowest
and the highest load, whose ratio is judged, run several times in turn, and the medians count: a virtual processor that
is taken away for some milliseconds is the p99 of a run. Flink gets
the same lines on the same core, a process after the other, with its own capacity as the measure: twice what it can do
is its highest load, as twice what ours can do is ours.

Analysis: above the capacity the sender of the middle stream is made to wait, and so are its lines. The highest level
waits for what is under way. Flink has a chain of threads for each connection, and the system gives a thread that has
little to do its turn at once: so connections isolate its levels, and it is judged where they share one (`live_feed`).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness.measure import Bound, Experiment, Figure, start
from benchmarks.harness.record import Value
from benchmarks.loads.connections import Heard, free_ports, hear, leave_core
from benchmarks.loads.offered import LEVELS, Offered, offer, periodic, text_of
from benchmarks.loads.stations import station
from benchmarks.peers.peer import MissingError

SEED = 30
RATE = 500.0  # events a second of the highest and the lowest level
SHARES = {"quick": (0.0, 2.0), "usual": (0.0, 0.5, 0.9, 1.2, 2.0), "full": (0.0, 0.25, 0.5, 0.75, 0.9, 1.2, 1.5, 2.0)}
SECONDS = {"quick": (3.0, 2.0), "usual": (5.0, 10.0), "full": (10.0, 60.0)}  # that do not count, and that do
ROUNDS = {"quick": 1, "usual": 3, "full": 5}  # of the loads that are judged, in turn
TIMELY_S = 0.1
FLOOD = 600_000.0  # lines a second beyond what can be done
MOST_GROWTH = 1.5

Run = Callable[[list[Offered], float, Path], Heard]


def streams(middle_rate: float, seconds: float) -> list[Offered]:
    """The events of the three streams; the middle one always has a few, which show its types."""
    dice = np.random.default_rng(SEED)
    rates = {"high": RATE, "middle": max(20.0, middle_rate), "low": RATE}
    return [offer(name, periodic(rate, seconds, dice), dice) for name, rate in rates.items()]


def ours(offered: list[Offered], seconds: float, folder: Path) -> Heard:
    command, ports = station(text_of(), [one.stream for one in offered], folder)
    return hear(command, offered, ports, seconds, folder)


def flink(offered: list[Offered], seconds: float, folder: Path) -> Heard:
    from benchmarks.peers.jvm.flink_levels import command

    folder.mkdir(parents=True)
    ports = dict(zip((one.stream for one in offered), free_ports(len(offered)), strict=True))
    return hear(command(ports), offered, ports, seconds, folder, calls=True)


def middle_done(heard: Heard, begin_us: float, end_us: float) -> float:
    """Events a second of the middle level, by the detections that came out between two times."""
    ts, came_us = heard.ts_us["middle"], heard.came_us["middle"]
    inside = (came_us >= begin_us) & (came_us < end_us)
    if inside.sum() < 2:
        return 0.0
    due_us = heard.offered["middle"].due_us
    first, last = np.searchsorted(due_us, (ts[inside].min(), ts[inside].max()))
    return float((last - first) / (end_us - begin_us) * 1e6)


def capacity(run: Run, warm_s: float, seconds: float, folder: Path) -> float:
    """How much of the middle level is done where more is sent than can be."""
    heard = run(streams(FLOOD, warm_s + seconds), warm_s + seconds, folder)
    return middle_done(heard, 1e6 * warm_s, 1e6 * (warm_s + seconds))


def check(experiment: Experiment, engine: str, share: float, heard: Heard, may_miss: Collection[str]) -> None:
    """Checks what came out of one run; streams of which events are shed may miss some detections."""
    missed = f"nothing before it is missed{', but of what is shed' if may_miss else ''}"
    what = f"{engine}, load {share:g}: what came out is there, once, and {missed}"
    experiment.check(what, heard.is_right(may_miss))


def highest_p99(heard: Heard, warm_s: float, seconds: float) -> float:
    """The highest level's p99 of one run, in ms."""
    latencies = heard.latencies("high", int(1e6 * warm_s), warm_s + seconds)
    return 1e3 * float(np.quantile(latencies, 0.99)) if len(latencies) else 0.0


def growth(p99: dict[float, list[float]], what: str) -> Bound:
    """How much the p99 grows from the lowest to the highest load: the ratio of the medians, and of single rounds."""
    low, high = p99[min(p99)], p99[max(p99)]
    ratios = [after / before for before, after in zip(low, high, strict=True)]
    ratio = statistics.median(high) / statistics.median(low)
    return Bound(what, ratio, MOST_GROWTH, "at most", "x", min(ratios), max(ratios))


def in_turn(shares: Sequence[float], rounds: int) -> list[tuple[int, float]]:
    """The loads of all rounds, each with its round: all of them, then the lowest and the highest again."""
    ends = (min(shares), max(shares))
    return [(0, share) for share in shares] + [(nth, share) for nth in range(1, rounds) for share in ends]


def rounded(p99: dict[float, list[float]]) -> dict[str, list[float]]:
    """For a note."""
    return {f"{share:g}": [round(one, 1) for one in some] for share, some in p99.items()}


def report(
    experiment: Experiment, engine: str, share: float, heard: Heard, warm_s: float, seconds: float, *,
    may_miss: Collection[str] = (),
) -> None:  # fmt: skip
    """Adds the rows of one run."""
    all_, timely = 0, 0
    for stream, level in LEVELS.items():
        until_s = None if stream in may_miss else warm_s + seconds
        latencies = heard.latencies(stream, int(1e6 * warm_s), until_s)
        all_, timely = all_ + len(latencies), timely + int((latencies <= TIMELY_S).sum())
        if not len(latencies):
            continue
        p50, p95, p99 = (1e3 * float(np.quantile(latencies, q)) for q in (0.5, 0.95, 0.99))
        quantiles: dict[str, Value] = {"p50 ms": p50, "p95 ms": p95, "p99 ms": p99}
        told: dict[str, Value] = {"engine and level": f"{engine}, {level}"}
        experiment.row(load=share, n=len(latencies), **told, **quantiles)
    experiment.row(
        load=share, way=engine, **{"detections/s": all_ / seconds, "timely detections/s": timely / seconds},
        **{"resident MB": heard.run.resident_mb},
        **{"middle events/s": middle_done(heard, 1e6 * warm_s, 1e6 * (warm_s + seconds))},
    )  # fmt: skip


def main() -> None:
    experiment = start("live_levels", "latency by level against the middle load, from a line in to a line out", SEED)
    leave_core()
    warm_s, seconds = SECONDS[experiment.size]
    shares = SHARES[experiment.size]
    engines: dict[str, Run] = {"ours": ours}
    if "--without-flink" not in sys.argv:
        engines["Flink"] = flink
    p99: dict[str, dict[float, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, experiment.watched():
        for engine, run in engines.items():
            try:
                most = capacity(run, warm_s, seconds, Path(folder) / engine / "capacity")
            except MissingError as error:
                experiment.note(f"{engine} does not run here: {error}")
                continue
            experiment.report(f"capacity of the middle level, {engine}", most, "lines/s")
            runs = in_turn(shares, ROUNDS[experiment.size] if engine == "ours" else 1)
            for number, (nth, share) in enumerate(runs):
                experiment.progress.step(number + 1, len(runs), f"{engine}: load")
                offered = streams(share * most, warm_s + seconds)
                heard = run(offered, warm_s + seconds, Path(folder) / engine / f"{share:g}-{nth}")
                check(experiment, engine, share, heard, ())
                p99.setdefault(engine, {}).setdefault(share, []).append(highest_p99(heard, warm_s, seconds))
                if nth == 0:
                    report(experiment, engine, share, heard, warm_s, seconds)
    last = shares[-1]
    ours_p99 = {share: p99["ours"][share] for share in (shares[0], last)}
    experiment.note(f"p99 of the highest level by round, ms: {rounded(ours_p99)}")
    what = f"p99 of the highest level at {last:g} times the capacity over unloaded"
    experiment.bound(growth(ours_p99, what))
    if "Flink" in p99:  # judged over one connection: `live_feed`
        below = p99["Flink"][last][0] / statistics.median(p99["ours"][last])
        experiment.report("Flink's p99 of the highest level at its highest load over ours at our", below, "x")
    experiment.figure(Figure("Latency by level", "load", "p99 ms", "engine and level", log="y"))
    experiment.figure(Figure("Detections within 100 ms", "load", "timely detections/s", "way"))
    experiment.figure(Figure("Resident memory", "load", "resident MB", "way"))
    experiment.finish()


if __name__ == "__main__":
    main()
