"""Measures 48 and 1,000 distinct patterns against the six, from memory, on one core, and how long a thousand compile.

Analysis: an engine that runs one automaton after another pays for each; the bound says how far the work is shared.
Answers are checked pattern by pattern against the formulas of `pattern_sets`, at full size.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.experiments.in_memory import with_coded_text, with_dense_keys
from benchmarks.harness.measure import Bound, Experiment, asked_size, start, stay_on_one_core
from benchmarks.inputs.fleet_events import SIX_PATTERNS, as_numpy, read_fleet
from benchmarks.inputs.pattern_sets import PatternPart, forty_eight, thousand, write_sre
from benchmarks.references.boundary_sets import EntityRows

N_EVENTS = {"quick": 100_000, "usual": 2_000_000, "full": 2_000_000}
MOST = {"48": 4, "200": 20, "1,000": 100}  # the most times the seconds of six
COMPILED_S = {"1,000": 10}


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> pa.Table:
    recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted")
    return pa.concat_tables([recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()])


class RowOf:
    """Finds an event's row from its dense entity and its number in that entity's word."""

    def __init__(self, entity: np.ndarray) -> None:
        self.by_entity = np.argsort(entity, kind="stable")
        self.first = np.concatenate([[0], np.cumsum(np.bincount(entity))])

    def __call__(self, entity: np.ndarray, seq: np.ndarray) -> np.ndarray:
        rows: np.ndarray = self.by_entity[self.first[entity] + seq]
        return rows


def detected_rows(found: pa.Table, row_of: RowOf) -> dict[str, np.ndarray]:
    """The rows, ascending, at which each pattern was detected; a pattern that never was is not there."""
    pattern = found["pattern"].combine_chunks().cast(pa.string()).dictionary_encode()
    codes = pattern.indices.to_numpy()
    rows = row_of(found["entity"].to_numpy(), found["seq"].to_numpy())
    order = np.lexsort((rows, codes))
    pieces = np.split(rows[order], np.cumsum(np.bincount(codes, minlength=len(pattern.dictionary)))[:-1])
    return dict(zip(pattern.dictionary.to_pylist(), pieces, strict=True))


def check_answers(
    experiment: Experiment, found: pa.Table, parts: dict[str, PatternPart], words: EntityRows, row_of: RowOf
) -> None:
    """Compares the detections of every pattern with its formula's, event by event."""
    found_rows = detected_rows(found, row_of)
    nothing = np.empty(0, np.int64)
    wrong = [
        name
        for name, part in parts.items()
        if not np.array_equal(found_rows.get(name, nothing), words.detect(part.formula))
    ]
    what = f"{len(parts)} patterns, {len(found):,} detections equal to the formulas'"
    experiment.check(what if not wrong else f"{what}, except {wrong[:5]}", not wrong)


def main() -> None:
    n_events = N_EVENTS[asked_size()]
    sets = {"48": forty_eight(), "1,000": thousand()}
    if asked_size() == "quick":  # a thousand formulas take long
        sets["200"] = dict(list(sets.pop("1,000").items())[::5])
    experiment = start(
        "many_patterns", f"6, {' and '.join(sets)} distinct patterns over {n_events:,} events in memory, one core"
    )
    events, _ = with_dense_keys(with_coded_text(read_fleet(n_events)))
    columns = as_numpy(read_fleet(n_events))
    entity = events["vehicle_id"].to_numpy()
    words, row_of = EntityRows(entity, columns), RowOf(entity)

    six = wayeb_py.compile(SIX_PATTERNS)
    compiled, compile_s = {}, {}
    for name, parts in sets.items():
        text = write_sre(parts)
        begin = time.perf_counter()
        compiled[name] = wayeb_py.compile(text)
        compile_s[name] = time.perf_counter() - begin
        experiment.report(f"compiling {name} patterns", compile_s[name], "s")
        # One of the warnings would be that two patterns are equivalent.
        warnings = [warning.message for warning in compiled[name].warnings]
        experiment.check(f"{name} patterns, no two of them equivalent {warnings[:3]}", not warnings)
        check_answers(experiment, recognise(compiled[name], events), parts, words, row_of)
    stay_on_one_core()
    seconds = experiment.median_seconds(
        {"6": partial(recognise, six, events)}
        | {name: partial(recognise, patterns, events) for name, patterns in compiled.items()}
    )
    experiment.rate_rows(n_events, {name: f"{name} patterns" for name in seconds})
    limit = n_events / seconds["6"] / 1e6 / MOST["48"]
    experiment.rate_figure("Distinct patterns together, one core", limit, f"the rate of 6 by {MOST['48']}, for 48")
    for name in compiled:
        experiment.bound_ratio(f"{name} patterns over 6", name, "6", MOST[name], "at most")
        if name in COMPILED_S:
            experiment.bound(Bound(f"compiling {name} patterns", compile_s[name], COMPILED_S[name], "at most", "s"))
    experiment.finish()


if __name__ == "__main__":
    main()
