"""Measures what a rule costs beside its patterns: three members over events of which one in a hundred matters.

Ten thousand entities report two values in the order of time. Three patterns, each of three reports in a row, detect one
event in three hundred each; the rule wants a detection of each, of one entity, in this order, within ten minutes of
each other. The same file without the rule is run beside it, in batches as `wayeb run` reads them; times are processor
seconds, of one thread. DuckDB counts the matches from the detections. What the rule keeps is counted after a tenth
of the events and at the end.

Analysis: the rule sees detections only, so its work is a hundredth of a row an event; what it keeps are the detections
of ten minutes, however long it runs.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import Bound, Experiment, start, stay_on_one_core
from wayeb_py.files.read import BATCH_ROWS

SEED = 21
N_EVENTS = {"quick": 200_000, "usual": 20_000_000, "full": 20_000_000}
N_ENTITIES = {"quick": 300, "usual": 10_000, "full": 10_000}
EVENTS_A_S = 1_000
MOST, MOST_STATE = 1.3, 1.1
PATTERNS = """stream made {
    key      id
    time     t in s
    lateness 1 min
    attr     v number
    attr     w number
}
pattern Low  := (v < 0.15) ; (v < 0.15 or w < 0.001) ; (v < 0.15)   within 10 min
pattern Mid  := (v in 0.4..0.55) ; (v in 0.4..0.55) ; (v in 0.4..0.55)   within 10 min
pattern High := (v > 0.85) ; (v > 0.85 and w > 0) ; (v > 0.85)   within 10 min
"""
RULE = """rule Rising :=
    a: Low, b: Mid, c: High
    where b.entity = a.entity and c.entity = a.entity and b.ts - a.ts in 0..600 s and c.ts - b.ts in 0..600 s
    emit a.entity
"""
SQL = """select count(*), coalesce(sum(c.ts), 0) from low a join mid b on b.entity = a.entity
    and b.ts - a.ts >= 0 and b.ts - a.ts < 600 join high c on c.entity = a.entity and c.ts - b.ts >= 0
    and c.ts - b.ts < 600"""


def make_events(n_events: int, n_entities: int) -> pa.Table:
    dice = np.random.default_rng(SEED)
    return pa.table(
        {
            "id": dice.integers(0, n_entities, n_events, dtype=np.int32),
            "t": np.arange(n_events) // EVENTS_A_S,
            "v": dice.random(n_events, dtype=np.float32),
            "w": dice.random(n_events, dtype=np.float32),
        }
    )


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> pa.Table:
    """All detections; those of a rule are rows with its name."""
    recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted", saves=False)
    found = [recogniser.feed(batch).to_arrow() for batch in events.to_batches(max_chunksize=BATCH_ROWS)]
    found.append(recogniser.finish().to_arrow())
    return pa.concat_tables([table for table in found if table.num_rows], promote_options="permissive")


def matches_in_duckdb(found: pa.Table) -> tuple[int, int]:
    """The number of matches in the detections, and the sum of their times."""
    import duckdb

    connection = duckdb.connect()
    names = found["pattern"].cast(pa.string())
    for name in ("Low", "Mid", "High"):
        own = found.filter(pa.compute.equal(names, name)).select(["entity", "ts"])
        connection.register(name.lower(), own)
    [(count, total)] = connection.execute(SQL).fetchall()
    return int(count), int(total)


def main() -> None:
    stay_on_one_core()
    experiment = start("three_members", "a rule of three members beside its patterns, one core", SEED)
    n_events = N_EVENTS[experiment.size]
    events = make_events(n_events, N_ENTITIES[experiment.size])
    alone, with_rule = wayeb_py.compile(PATTERNS), wayeb_py.compile(PATTERNS + RULE)
    detections, found = recognise(alone, events), recognise(with_rule, events)
    check(experiment, n_events, detections, found)
    ways = {"patterns": partial(recognise, alone, events), "rule": partial(recognise, with_rule, events)}
    experiment.median_seconds(ways, 5, clock=time.process_time)
    experiment.rate_rows(n_events, {"patterns": "patterns alone", "rule": "and a rule over them"})
    experiment.rate_figure("A rule of three members, one core")
    experiment.bound_ratio("patterns and a rule over patterns alone", "rule", "patterns", MOST, "at most")
    state(experiment, with_rule, events)
    experiment.finish()


def check(experiment: Experiment, n_events: int, detections: pa.Table, found: pa.Table) -> None:
    n_detections = detections.num_rows
    experiment.check(
        f"{n_detections:,} detections, {100 * n_detections / n_events:.2f} % of the events", n_detections > 0
    )
    is_match = pa.compute.equal(found["pattern"].cast(pa.string()), "Rising")
    matches = found.filter(is_match)
    told = matches.num_rows, int(pa.compute.sum(matches["ts"]).as_py() or 0)
    experiment.check("the patterns' detections are the same with the rule", found.num_rows - told[0] == n_detections)
    experiment.check(f"{told[0]:,} matches, as DuckDB's", told == matches_in_duckdb(detections) and told[0] > 0)


def state(experiment: Experiment, patterns: wayeb_py.Patterns, events: pa.Table) -> None:
    """What the rule keeps after a tenth of the events, and at the end."""
    recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted", saves=False)
    sizes = {}
    fed = 0
    for batch in events.to_batches(max_chunksize=BATCH_ROWS):
        recogniser.feed(batch)
        before, fed = fed, fed + batch.num_rows
        for share in (0.1, 1.0):
            if before < share * len(events) <= fed:
                sizes[share] = kept_rows(recogniser)
    experiment.report("rows kept after a tenth", sizes[0.1], "rows")
    experiment.bound(Bound("rows kept at ten times the data", sizes[1.0] / sizes[0.1], MOST_STATE, "at most"))


def kept_rows(recogniser: wayeb_py.Recogniser) -> int:
    """The rows and tuples that the network of the rules holds, to the tick."""
    running, _ = recogniser._rules._make()  # type: ignore[union-attr]
    network = running.in_time.network
    return sum(node.n_alive for node in network.report())


if __name__ == "__main__":
    main()
