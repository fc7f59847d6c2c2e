"""Measures timely detections with and without shedding as the load grows, and rules of two streams at four intervals.

*Absolute.* A detection is worth something for 50 ms. The load grows from half of what the machine can do to three times
as much. Without shedding events wait ever longer, and soon every detection is too late; with `shed after 25 ms` events
that have waited too long are skipped, and what is left is in time.

*Relative.* A rule joins a detection of one stream with one of another stream of the same entity, at most an interval
after it; the second stream lags by 20 ms. At four intervals: how many matches there are, what an event costs, and how
much the rule keeps. Matches are compared with numpy's.

The recogniser is slowed by ten microseconds an event. The clock is the processor time of this process: see
`benchmarks/loads/processor_clock.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import Bound, Experiment, Figure, start, stay_on_one_core
from benchmarks.loads.offered import N_ENTITIES, offer, periodic, text_of
from benchmarks.loads.processor_clock import ProcessorClock, Served, serve, slow
from wayeb_py.arrays import I64
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser
from wayeb_py.engine.recogniser import Recogniser

SEED = 32
VALID_MS, SHED_MS = 50, 25
AN_EVENT_S = 10e-6  # how much slower each event is made, so that an overload can be generated
FLOOD = 400_000.0  # events a second beyond what can be done
SHARES = (0.5, 0.9, 1.5, 2.0, 3.0)
SECONDS = {"quick": 0.5, "usual": 4.0, "full": 20.0}
LEAST_TIMELY = 0.5  # share of what is timely at nine tenths of the capacity
INTERVALS_MS = (10, 25, 50, 100)
LAG_US = 20_000
N_RULE = {"quick": 20_000, "usual": 200_000, "full": 1_000_000}


def run(rate: float, seconds: float, sheds: bool) -> tuple[Served, LeveledRecogniser, int, float]:
    """Serves the middle level alone; returns what left, the number of matches, and when the last event came."""
    dice = np.random.default_rng(SEED)
    offered = offer("middle", periodic(rate, seconds, dice), dice)
    clause = f"valid for {VALID_MS} ms else mark" + (f" shed after {SHED_MS} ms" if sheds else "")
    clock = ProcessorClock()
    with clock.paused():
        patterns = wayeb_py.compile(text_of(clauses={"middle": clause})).select(["Middle"])
        recogniser = LeveledRecogniser(patterns, clock=clock.clock, slice_s=0.002)
        for own in recogniser.recognisers:
            own.bind(offered.events.schema, "middle")
        slow(recogniser, clock, AN_EVENT_S)
    served = serve(recogniser, [offered], clock)
    found, expected = served.found("middle"), offered.expected_us()
    if not np.isin(found, expected).all() or (not sheds and len(found) != len(expected)):
        raise SystemExit("live_validity: wrong answer: a detection that is not there, or one that is missed")
    return served, recogniser, len(expected), float(offered.due_us[-1]) / 1e6


def absolute(experiment: Experiment, seconds: float) -> None:
    """Timely detections a second against the load."""
    run(FLOOD, 0.1, True)
    served, _, _, _ = run(FLOOD, seconds / 4, False)
    capacity = FLOOD * seconds / 4 / served.until_s
    experiment.report("capacity", capacity, "events/s")
    timely: dict[tuple[bool, float], float] = {}
    for number, share in enumerate(SHARES):
        experiment.progress.step(number + 1, len(SHARES), "load")
        for sheds in (False, True):
            served, recogniser, n_expected, last_s = run(share * capacity, seconds, sheds)
            latencies = served.latencies("middle")
            in_time = int((latencies <= VALID_MS / 1000).sum())
            tally = recogniser.tallies["normal"]
            n_stale = tally.stale
            timely[sheds, share] = in_time / last_s
            experiment.row(
                part="absolute", load=share, shedding="shed" if sheds else "nothing shed",
                **{"timely detections/s": in_time / last_s, "detections/s": len(latencies) / last_s},
                stale=n_stale, shed=tally.shed, missed=n_expected - len(latencies),
            )  # fmt: skip
    experiment.check("whatever was found is there, and all of it where nothing is shed", True)
    kept = timely[True, SHARES[-1]] / timely[True, 0.9]
    what = f"timely detections with shedding at {SHARES[-1]:g} times the capacity over those at 0.9"
    experiment.bound(Bound(what, kept, LEAST_TIMELY, "at least"))
    lost = timely[False, SHARES[-1]] / timely[False, 0.9]
    experiment.report("the same without shedding", lost, "x")


def two_streams(n: int) -> tuple[pa.Table, pa.Table]:
    """Events of two streams that will be detected, one every 50 µs; the second stream lags."""
    dice = np.random.default_rng(SEED)
    tables = []
    for lag in (0, LAG_US):
        ts = np.arange(n, dtype=np.int64) * 50 + lag
        tables.append(pa.table({"id": dice.integers(0, N_ENTITIES, n), "ts": ts, "v": dice.random(n)}))
    return tables[0], tables[1]


def matches_in_numpy(first: pa.Table, second: pa.Table, interval_us: int) -> int:
    """How many pairs of detections there are that the rule joins."""
    total = 0
    for entity in range(N_ENTITIES):
        a, b = (_times(one, entity) for one in (first, second))
        total += int((np.searchsorted(a, b, side="right") - np.searchsorted(a, b - interval_us, side="right")).sum())
    return total


def _times(table: pa.Table, entity: int) -> I64:
    ids, v, ts = (table[name].to_numpy() for name in ("id", "v", "ts"))
    return np.asarray(ts[(ids == entity) & (v > 0.9)], dtype=np.int64)


def kept(recogniser: Recogniser) -> int:
    """The rows and tuples that rules keep."""
    assert recogniser.rules is not None
    return sum(node.n_alive for node in recogniser.rules.running.in_time.network.report())


def relative(experiment: Experiment, n: int) -> None:
    """A rule of two streams at four intervals."""
    first, second = two_streams(n)
    for interval_ms in INTERVALS_MS:
        source = "".join(f"stream {name} {{ key id time ts in us attr v number }}\n" for name in ("one", "other"))
        source += "pattern A on one := (v > 0.9)\npattern B on other := (v > 0.9)\n"
        source += f"rule R := a: A, b: B where a.entity = b.entity and b.ts - a.ts in 0 ms .. {interval_ms} ms\n"
        recogniser = Recogniser(wayeb_py.compile(source).select(["R"]))
        n_found, peak, step = 0, 0, 2_000
        clock = ProcessorClock()
        for at in range(0, n, step):
            n_found += len(recogniser.feed(first.slice(at, step), "one"))
            n_found += len(recogniser.feed(second.slice(at, step), "other"))
            if at // step % 10 == 5:
                with clock.paused():
                    peak = max(peak, kept(recogniser))
        n_found += len(recogniser.finish())
        took_s = clock.now_s()
        expected = matches_in_numpy(first, second, interval_ms * 1000)
        experiment.check(f"{n_found:,} matches within {interval_ms} ms, as numpy's", n_found == expected)
        experiment.row(
            part="relative", **{"interval ms": interval_ms, "matches": n_found, "us an event": 1e6 * took_s / (2 * n)},
            **{"rows and tuples": peak},
        )  # fmt: skip


def main() -> None:
    stay_on_one_core()
    experiment = start("live_validity", "timely detections with and without shedding; rules at four intervals", SEED)
    absolute(experiment, SECONDS[experiment.size])
    relative(experiment, N_RULE[experiment.size])
    experiment.figure(Figure("Timely detections", "load", "timely detections/s", "shedding"))
    experiment.figure(Figure("What a rule of two streams costs", "interval ms", "us an event"))
    experiment.figure(Figure("What a rule of two streams keeps", "interval ms", "rows and tuples"))
    experiment.finish()


if __name__ == "__main__":
    main()
