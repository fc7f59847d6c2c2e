"""Measures what measures and named events cost: the six fleet patterns with them, against the six and other engines.

    wayeb bench measures [--only esper,flink-sql]

In process, one core, by processor time: the six; the six with three measures each; the six with an event that a later
letter uses; and forecasts of the six, of which the likely ones become rows, or all of them: a row of each pattern at
every event. Such rows are more than the events, so they are measured as a stream has them: batch by batch, each table
let go before the next. The answers are checked first:
measures against the events themselves, and named events against the detections that measures select, since a match of
these patterns is the only one with its end.

Beside them stand the engines that have MATCH_RECOGNIZE, each in a process of its own as in `peers`. What a match
measures is part of what is compared; they report every start of an end, of which the shortest match counts. The quick
size runs none of them unless they are named.

Analysis: a measure is folded over the events of a match once it is found, and over those of starts that are still
alive at the end of a chunk, so its cost follows the matches and, with many entities, the ends of chunks. Patterns that
measure the same share both. A named event makes each start a run of its own until a letter fails; an event after which
each run ends or goes on in one way costs a look-up. A forecast is a look-up by the symbol of the event,
which recognition has found already. Where every event has a row of each pattern, these share the columns of the event,
and a row costs the look-up of its probability: recognition steps the six at once, and so do the forecasts. To keep all
of them takes memory that was never used, which costs about as much again, and is not judged.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import wayeb_py
from benchmarks.experiments.in_memory import with_coded_text
from benchmarks.experiments.peers import (
    BUDGET_S,
    OURS,
    SMALL,
    Answer,
    Detections,
    FailedError,
    ask,
    difference,
    forms,
)
from benchmarks.harness.measure import Bound, Experiment, start, stay_on_one_core
from benchmarks.inputs.fleet_events import QUICK_EVENTS, SIX_PATTERNS, fleet_file, read_fleet
from benchmarks.peers.in_wayeb import MATCHES
from benchmarks.peers.peer import MATCH_TASKS, SIX, Form, MissingError
from benchmarks.references.fleet_in_polars import NEEDED
from wayeb_py.forecast.operator import ForecastOperator
from wayeb_py.forecast.tables import Horizon
from wayeb_py.run.forecasts import learn, load_tables

N_EVENTS = {"quick": QUICK_EVENTS, "usual": 5_000_000, "full": 20_000_000}
MOST_MEASURED, MOST_NAMED, MOST_FORECAST = 2, 4, 2  # times the six alone
LIKELY = 0.5
BATCH_ROWS = 1 << 16
ONE = "SpeedSwing"
LEAST_FASTER = 10  # the least factor over each peer, for each task
PEERS = ("duckdb-match", "esper", "flink-sql", "trino-sql")
HOUR_S = 3600


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> pa.Table:
    recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted")
    return pa.concat_tables([recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()])


class VehicleEvents:
    """The events by vehicle, so that a match is a slice of them."""

    def __init__(self, events: pa.Table) -> None:
        vehicle = events["vehicle_id"].to_numpy()
        self.order = np.argsort(vehicle, kind="stable")
        self._vehicles, self._first = np.unique(vehicle[self.order], return_index=True)
        self.ts = events["ts"].cast(pa.int64()).to_numpy()[self.order] / 1e3
        columns = (events[name].cast(pa.float64()).to_numpy(zero_copy_only=False) for name in ("speed", "travelled"))
        self.speed, self.travelled = (column[self.order] for column in columns)

    def spans(self, found: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Where the first and the last event of each match lie."""
        begin = self._first[np.searchsorted(self._vehicles, found["entity"].to_numpy())]
        return begin + found["start_seq"].to_numpy(), begin + found["seq"].to_numpy()


def measures_hold(found: pa.Table, events: VehicleEvents) -> bool:
    """Whether each match has the measures of its events."""
    first, last = events.spans(found)
    top = found["top"].to_numpy(zero_copy_only=False).astype(np.float64)
    expected = np.array([greatest(events.speed[a : b + 1]) for a, b in zip(first, last, strict=True)])
    return bool(
        (found["n"].to_numpy() == last - first + 1).all()
        and np.array_equal(found["took"].to_numpy(), events.ts[last] - events.ts[first])
        and np.array_equal(top, expected, equal_nan=True)
    )


def greatest(values: np.ndarray) -> float:
    there = values[~np.isnan(values)]
    return float(there.max()) if len(there) else float("nan")


def selected(found: pa.Table, events: VehicleEvents) -> list[tuple[object, ...]]:
    """The matches of the six in which the last letter, or the one before it, fits the first event."""
    first, last = events.spans(found)
    took, name = events.ts[last] - events.ts[first], np.array(found["pattern"].cast(pa.string()).to_pylist())
    fits = np.where(name == "Route", took < 6 * HOUR_S, took < HOUR_S / 3)
    is_swing, is_fault = name == "SpeedSwing", np.char.startswith(name, "MovingWith")
    fits = np.where(is_swing, (events.speed[last - 1] > events.speed[first]) & (took <= HOUR_S), fits)
    grows = events.travelled[last] > events.travelled[first]
    fits = np.where(is_fault, grows & (took <= HOUR_S), fits)
    return in_order(found.filter(pa.array(fits)))


def in_order(found: pa.Table, prefix: str = "") -> list[tuple[object, ...]]:
    names = [name.removeprefix(prefix) for name in found["pattern"].cast(pa.string()).to_pylist()]
    return sorted(zip(names, *(found[name].to_pylist() for name in ("entity", "seq", "start_seq")), strict=True))


def recognise_in_batches(patterns: wayeb_py.Patterns, batches: Sequence[pa.RecordBatch]) -> int:
    """How many detections there are; each batch's are let go before the next."""
    recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted")
    n = sum(recogniser.feed(batch).to_arrow().num_rows for batch in batches)
    return int(n + recogniser.finish().to_arrow().num_rows)


def learnt(patterns: wayeb_py.Patterns, n_events: int, folder: Path) -> Callable[[float], ForecastOperator]:
    """A function that makes an operator of forecasts of all patterns, ten minutes ahead, by models of the same
    events."""
    learn(patterns, [str(fleet_file(n_events))], folder)
    tables = load_tables(patterns, folder, [(name, Horizon.parse("10min"), 0.7) for name in patterns.names])

    return lambda at_least: ForecastOperator(patterns, tables, at_least=at_least, order="sorted")


def forecasts(operator: ForecastOperator, events: pa.Table) -> pa.Table:
    return pa.concat_tables([*(operator.feed(batch) for batch in events.to_batches()), operator.finish()])


def forecasts_in_batches(operator: ForecastOperator, batches: Sequence[pa.RecordBatch]) -> int:
    """How many forecasts there are; each batch's are let go before the next."""
    return int(sum(operator.feed(batch).num_rows for batch in batches) + operator.finish().num_rows)


def in_one_order(rows: pa.Table) -> pa.Table:
    """Forecasts by pattern, entity and event."""
    named = rows.set_column(0, "pattern", rows["pattern"].cast(pa.string())).drop_columns(["horizon"])
    return named.sort_by([(name, "ascending") for name in ("pattern", "entity", "seq")])


def in_process(experiment: Experiment) -> None:
    n_events = N_EVENTS[experiment.size]
    events = with_coded_text(read_fleet(n_events, NEEDED))
    of_matches = wayeb_py.compile(MATCHES)
    six = wayeb_py.compile(SIX_PATTERNS)
    measured, named = (of_matches.select(MATCH_TASKS[task]) for task in ("measured", "named"))
    by_vehicle = VehicleEvents(events)
    found, with_measures, with_names = (recognise(patterns, events) for patterns in (six, measured, named))
    same = in_order(found) == in_order(with_measures, "Measured")
    experiment.check(f"{found.num_rows:,} detections with measures and without", same)
    experiment.check("measures are those of the events of each match", measures_hold(with_measures, by_vehicle))
    expected = selected(found, by_vehicle)
    experiment.check(f"{len(expected):,} detections by named events", in_order(with_names, "Named") == expected)
    every = {name.removeprefix("Named") for name in pc.unique(with_names["pattern"].cast(pa.string())).to_pylist()}
    experiment.check("each of the six is among them", every == set(SIX))
    with tempfile.TemporaryDirectory() as folder:
        one = six.select([ONE])
        forecaster, of_one = learnt(six, n_events, Path(folder)), learnt(one, n_events, Path(folder))
    likely, every_event = forecasts(forecaster(LIKELY), events), forecasts(forecaster(0.0), events)
    chosen = every_event.filter(pc.greater_equal(every_event["probability"], LIKELY))
    agree = in_one_order(likely).equals(in_one_order(chosen))
    experiment.check(f"{likely.num_rows:,} likely forecasts of {every_event.num_rows:,}", agree)
    batches = events.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
    n_every = forecasts_in_batches(forecaster(0.0), batches)
    experiment.check("as many batch by batch", n_every == every_event.num_rows == len(SIX) * events.num_rows)
    del likely, chosen
    stay_on_one_core()
    seconds = experiment.median_seconds(
        {
            "six": lambda: recognise(six, events),
            "measured": lambda: recognise(measured, events),
            "named": lambda: recognise(named, events),
            "forecast": lambda: forecasts(forecaster(LIKELY), events),
            "six in batches": lambda: recognise_in_batches(six, batches),
            "every forecast": lambda: forecasts_in_batches(forecaster(0.0), batches),
            "all kept": lambda: forecasts(forecaster(0.0), events),
            "one in batches": lambda: recognise_in_batches(one, batches),
            "one forecast": lambda: forecasts_in_batches(of_one(0.0), batches),
        },
        clock=time.process_time,
    )
    names = {
        "six": "six alone",
        "measured": "with three measures each",
        "named": "with a named event each",
        "forecast": f"with forecasts of each, rows from {LIKELY} on",
        "six in batches": f"six alone, in batches of {BATCH_ROWS:,}",
        "every forecast": "with forecasts of each, a row at every event, in such batches",
        "all kept": "with forecasts of each, a row at every event, all of them kept",
        "one in batches": f"{ONE} alone, in such batches",
        "one forecast": f"{ONE} with a forecast at every event, in such batches",
    }
    experiment.rate_rows(n_events, names)
    experiment.rate_figure("Measures and named events, one core")
    experiment.bound_ratio("measures over recognition alone", "measured", "six", MOST_MEASURED, "at most")
    experiment.bound_ratio("named events over recognition alone", "named", "six", MOST_NAMED, "at most")
    experiment.bound_ratio("likely forecasts over recognition alone", "forecast", "six", MOST_FORECAST, "at most")
    name = "a forecast of one pattern at every event over recognising it"
    experiment.bound_ratio(name, "one forecast", "one in batches", MOST_FORECAST, "at most")
    name = "forecasts of each of the six at every event over recognition alone"
    experiment.bound_ratio(name, "every forecast", "six in batches", MOST_FORECAST, "at most")
    experiment.report("where all of them are kept", seconds["all kept"] / seconds["six"], "x")
    more_s = seconds["every forecast"] - seconds["six in batches"]
    experiment.report("a forecast with its row", 1e9 * more_s / n_every, "ns")


def side_by_side(experiment: Experiment, wanted: tuple[str, ...]) -> None:
    """Runs the engines, compares what they find and measure, and reports how many times as long each takes."""
    if not wanted:
        return
    known = {form.name: form for form in forms()}
    n_events, budget_s = SMALL[experiment.size], BUDGET_S[experiment.size]
    tasks = list(MATCH_TASKS)
    ours = ask(known[OURS], known[OURS].start(), n_events, tasks, budget_s)
    for number, name in enumerate(wanted):
        form = known[name]
        experiment.progress.step(number + 1, len(wanted), f"{form.title}, peer")
        try:
            with experiment.watched():
                answer = ask(form, form.start(), n_events, tasks, budget_s)
        except MissingError as fault:
            experiment.row(peer=form.title, said=f"missing: {fault}")
            continue
        except FailedError as fault:
            experiment.row(peer=form.title, said=f"failed: {fault}")
            experiment.bound(Bound(f"{form.title} answers", 0, 1, "at least", ""), at_every_size=True)
            continue
        compare(experiment, form, ours, answer, n_events)


def of_shortest(detections: Detections) -> Detections:
    """Of the matches of one pattern with the same end the one that took least: the others report every start."""
    shortest: dict[tuple[str, int, int], tuple[int, str]] = {}
    for text, entity, ts in detections:
        name, *measures = text.split()
        own = int(measures[0]) if measures else 0, text
        end = name, entity, ts
        shortest[end] = min(own, shortest.get(end, own))
    return {(text, entity, ts) for (_, entity, ts), (_, text) in shortest.items()}


def compare(experiment: Experiment, form: Form, ours: Answer, answer: Answer, n_events: int) -> None:
    for task in MATCH_TASKS:
        wrong = difference(ours.detections[task], of_shortest(answer.detections[task]))
        experiment.check(f"{form.title}, {task}: {len(ours.detections[task]):,} detections", wrong is None)
        own_s, their_s = (statistics.median(one.seconds[task]) for one in (ours, answer))
        experiment.row(
            peer=form.title,
            task=task,
            events=n_events,
            seconds=their_s,
            processor_s=statistics.median(answer.processor_s[task]),
            times_ours=their_s / own_s,
            lines=form.lines(task),
        )
        what = f"{form.title} over ours, {task}"
        experiment.bound(Bound(what, their_s / own_s, LEAST_FASTER, "at least"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="wayeb bench measures")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", help=f"some of {', '.join(PEERS)}, with commas")
    only = tuple(name for name in parser.parse_args().only.split(",") if name)
    if set(only) - set(PEERS):
        parser.error(f"there are {', '.join(PEERS)}")
    experiment = start("measures", "measures and named events of the six fleet patterns, against recognition alone")
    side_by_side(experiment, only or (() if experiment.size == "quick" else PEERS))
    in_process(experiment)
    experiment.finish()


if __name__ == "__main__":
    main()
