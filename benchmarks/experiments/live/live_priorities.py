"""Measures how long each level waits, with and without priorities, for periodic and sporadic arrivals.

Three streams have a pattern each: `High` and `Low` get a thousand events a second, the middle one as many as a share of
what this machine can do. Events arrive at equal distances, or in bursts of up to forty. Without priorities the three
are alike, and the event that has waited longest is next. The recogniser is slowed by ten microseconds an event. The
clock is the processor time of this process, so that other processes do not disturb: see
`benchmarks/loads/processor_clock.py`.

Analysis: without priorities all levels wait for each other's events, and above the capacity all of them wait ever
longer. With them the highest waits for the slice of work that is under way when it arrives, a millisecond at most, and
for nothing else: that is judged. By this clock the highest level takes a tenth of a millisecond by itself where nothing
else is there, so that a slice is longer than all of it; as a multiple, latency is judged where lines come over a
connection (`live_levels`, `live_feed`).
"""

from __future__ import annotations

import numpy as np

import wayeb_py
from benchmarks.harness.measure import Bound, Experiment, Figure, start, stay_on_one_core
from benchmarks.loads.offered import LEVELS, Offered, offer, periodic, sporadic, text_of
from benchmarks.loads.processor_clock import ProcessorClock, Served, serve, slow
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser

SEED = 31
RATE = 1_000.0  # events a second of the highest and the lowest level
SHARES = (0.0, 0.5, 0.9, 1.2, 2.0)  # shares of the capacity, for the middle level
SECONDS = {"quick": 0.5, "usual": 4.0, "full": 20.0}
MOST_WAIT_MS = 1.0  # within which a lower level gives way
AN_EVENT_S = 10e-6  # how much slower each event is made, so that an overload can be generated
FLOOD = 400_000.0  # events a second beyond what can be done
ARRIVALS = {"periodic": periodic, "sporadic": sporadic}


def streams(middle_rate: float, seconds: float, arrivals: str) -> list[Offered]:
    """The events of the three streams."""
    dice = np.random.default_rng(SEED)
    rates = {"high": RATE, "middle": middle_rate, "low": RATE}
    return [offer(name, ARRIVALS[arrivals](rate, seconds, dice), dice) for name, rate in rates.items()]


def run(offered: list[Offered], priorities: bool) -> tuple[Served, LeveledRecogniser]:
    """Serves events until all that waits is done."""
    clock = ProcessorClock()
    with clock.paused():
        recogniser = LeveledRecogniser(wayeb_py.compile(text_of(priorities)), clock=clock.clock)
        for one in offered:  # makes here what is made once for a stream
            for own in recogniser.recognisers:
                if own.reads(one.stream):
                    own.bind(one.events.schema, one.stream)
        slow(recogniser, clock, AN_EVENT_S)
    return serve(recogniser, offered, clock), recogniser


def capacity(seconds: float) -> float:
    """Events a second of the middle level that are done where as many wait as anyone could want."""
    offered = streams(FLOOD, seconds / 4, "periodic")
    run(offered, priorities=True)  # compiles and loads
    served, _ = run(offered, priorities=True)
    return offered[1].n / served.until_s


def check(experiment: Experiment, offered: list[Offered], served: Served, what: str) -> None:
    """Checks that everything that is there was found, once."""
    same = all(np.array_equal(served.found(one.stream), one.expected_us()) for one in offered)
    n = sum(len(served.found(one.stream)) for one in offered)
    experiment.check(f"{n:,} detections {what}, as numpy's", same and n > 0)


def main() -> None:
    stay_on_one_core()
    experiment = start("live_priorities", "latency by level with and without priorities, periodic and sporadic", SEED)
    seconds = SECONDS[experiment.size]
    most = capacity(seconds)
    experiment.report("capacity of the middle level", most, "events/s")
    p99: dict[tuple[str, str, float], float] = {}
    runs = [(way, arrivals, share) for arrivals in ARRIVALS for share in SHARES for way in ("priorities", "none")]
    for number, (way, arrivals, share) in enumerate(runs):
        experiment.progress.step(number + 1, len(runs), "run")
        offered = streams(share * most, seconds, arrivals)
        served, _ = run(offered, way == "priorities")
        check(experiment, offered, served, f"{arrivals}, load {share:g}, {way}")
        for stream, level in LEVELS.items():
            latencies = 1e3 * served.latencies(stream)
            if len(latencies):
                middle, high = float(np.median(latencies)), float(np.quantile(latencies, 0.99))
                if stream == "high":
                    p99[way, arrivals, share] = high
                told = f"{level}, {'with' if way == 'priorities' else 'without'} priorities"
                experiment.row(arrivals=arrivals, load=share, served=told, **{"p99 ms": high, "p50 ms": middle})
    for arrivals in ARRIVALS:
        loaded, unloaded = (p99["priorities", arrivals, share] for share in (SHARES[-1], 0.0))
        what = f"p99 of the highest level at {SHARES[-1]:g} times the capacity, {arrivals}, in process"
        experiment.bound(Bound(f"{what}, less unloaded", loaded - unloaded, MOST_WAIT_MS, "at most", "ms"))
        experiment.report(f"{what}, over unloaded", loaded / unloaded, "x")
        gained = p99["none", arrivals, SHARES[-1]] / p99["priorities", arrivals, SHARES[-1]]
        experiment.report(f"p99 of the highest level without priorities over with them, {arrivals}", gained, "x")
    experiment.figure(Figure("Latency by level", "load", "p99 ms", "served", panel="arrivals", log="y"))
    experiment.finish()


if __name__ == "__main__":
    main()
