"""Forecasts of patterns `for each` place: those of the same pattern written for each place by itself, from the event on
at which the place was first within reach."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests import geodesy
from tests.forecast.test_forecasts import Recorder, watch
from wayeb_py.compiler.for_each import at_one
from wayeb_py.errors import UsageError
from wayeb_py.forecast.evaluation.evaluate import learn_from
from wayeb_py.forecast.evaluation.trials import TrialCollector, outcomes
from wayeb_py.forecast.expected import expected_after
from wayeb_py.forecast.learn import Learner
from wayeb_py.forecast.tables import ForecastTables, Horizon
from wayeb_py.run.forecasts import automata_of, evaluate_files, forecast, learn, load_tables
from wayeb_py.why.entity_words import words_of as words_at

PORTS = {"A": (0.0, 50.0), "B": (0.1, 50.0), "C": (0.5, 50.0)}
STREAM = """\
stream ships {
    key  ship
    time ts in s
    position lon, lat
    forget after 400 s
    attr speed number in kn
}
points port from "ports.csv"
"""
EACH = {
    "Approach": ("{}(distance({}) in 5..10 km) ; (distance({}) < 5 km)", 10_000),
    "Stay": ("{}(near({}, 6 km) and speed < 1){{2,}} ; (not near({}, 6 km)) within 8 events", 6_000),
}


def written(name: str, place: str | None) -> str:
    text = EACH[name][0]
    if place is None:
        return f"pattern {name} " + text.format("for each p in port := ", "p", "p") + "\n"
    return f"pattern {name}{place} := " + text.format("", *[f'port["{place}"]'] * 2) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places")
    write_files(folder)
    return folder


def write_files(folder: Path) -> None:
    """Ports, the patterns for each of them, the same written one by one, and events."""
    rows = "".join(f"{name},{lon},{lat}\n" for name, (lon, lat) in PORTS.items())
    (folder / "ports.csv").write_text("name,lon,lat\n" + rows)
    (folder / "each.sre").write_text(STREAM + "".join(written(name, None) for name in EACH))
    alone = "".join(written(name, place) for name in EACH for place in PORTS)
    (folder / "alone.sre").write_text(STREAM + alone)
    pq.write_table(events(), folder / "events.parquet")


@cache
def events(n: int = 1500) -> pa.Table:
    rng = np.random.default_rng(5)
    ship = rng.integers(0, 6, size=n)
    lon = np.array([rng.choice([0.0, 0.05, 0.1, 0.12, 0.3, 0.45, 0.5]) for _ in range(n)]) + rng.normal(0, 0.02, n)
    lon[rng.random(n) < 0.03] = np.nan
    return pa.table(
        {
            "ship": [f"s{number}" for number in ship],
            "ts": np.cumsum(rng.choice([1, 10, 30, 300], p=[0.4, 0.4, 0.19, 0.01], size=n)),
            "lon": pa.array(lon, from_pandas=True),
            "lat": np.full(n, 50.0),
            "speed": rng.choice([0.0, 0.5, 8.0], size=n),
        }
    )


Row = tuple[int, str, str, float]  # row, pattern, place, probability
Word = list[tuple[int, int, bool, bool]]  # symbol, row, whether it begins a word, whether it detects
Words = dict[tuple[str, str, str], Word]  # by pattern, place and ship


def words_of(folder: Path) -> Words:
    """What each event of a ship is to each pattern at each place, by the patterns that are written for one place."""
    alone = wayeb_py.compile(folder / "alone.sre")
    recorder = Recorder(alone)
    watch(alone, recorder, events(), [])  # type: ignore[arg-type]
    ships = events().column("ship").to_pylist()
    found: Words = {}
    for name in EACH:
        for place in PORTS:
            for row, (_, symbol, seq, _, _, detected) in enumerate(recorder.seen[name + place]):
                found.setdefault((name, place, ships[row]), []).append((symbol, row, seq == 0, detected))
    return found


@cache
def is_within(row: int, place: str, reach_m: float) -> bool:
    lon = events().column("lon")[row].as_py()
    return lon is not None and geodesy.haversine_m(lon, 50.0, *PORTS[place]) <= reach_m


@pytest.fixture(scope="module")
def words(folder: Path) -> Words:
    return words_of(folder)


def test_what_follows_is_counted_once_a_place_was_within_reach(folder: Path, words: Words) -> None:
    each = wayeb_py.compile(folder / "each.sre")
    learner = Learner(each, automata_of(each), order=2)
    watch(each, learner, events(), [400, 401, 900])
    for name, counts in zip(EACH, learner.counts(), strict=True):
        follows: Counter[tuple[tuple[int, ...], int]] = Counter()
        ends: Counter[tuple[int, ...]] = Counter()
        n_words, n_detected = 0, 0
        for (pattern, place, _), word in words.items():
            if pattern != name:
                continue
            before: list[int] = []
            is_known = False
            for symbol, row, begins, detected in word:
                if begins:
                    ends[tuple(before[-2:])] += is_known
                    before, is_known = [], False
                follows[tuple(before[-2:]), symbol] += is_known
                before.append(symbol)
                if not is_known and is_within(row, place, EACH[name][1]):
                    is_known, n_words = True, n_words + 1
                n_detected += is_known and detected
        found: Counter[tuple[tuple[int, ...], int]] = Counter()
        for (_, _, context, symbol), n in counts.follows.items():
            found[context, symbol] += n
        ended: Counter[tuple[int, ...]] = Counter()
        for (_, _, context), n in counts.ends.items():
            ended[context] += n
        assert (found, ended) == (+follows, +ends)
        assert counts.n_words == n_words
        assert sum(n for (_, is_detected), n in counts.matches.items() if is_detected) == n_detected
        assert min(n_words, n_detected, ended.total()) > 5


def horizons() -> list[tuple[str, Horizon, float]]:
    return [(name, Horizon.parse("2min"), 0.7) for name in EACH]


def expected(words: Words, tables: list[ForecastTables]) -> list[Row]:
    """The forecasts by the definition: the node after all events of the word."""
    made = []
    for name, own in zip(EACH, tables, strict=True):
        for (pattern, place, _), word in words.items():
            node, is_known = 0, False
            for symbol, row, begins, _ in word if pattern == name else ():
                node, is_known = (0, False) if begins else (node, is_known)
                node = int(own.nodes.next_node[node, symbol])
                is_known = is_known or is_within(row, place, EACH[name][1])
                if is_known:
                    made.append((row, name, place, float(own.probability[0, node])))
    return sorted(made)


def rows_of(table: pa.Table) -> list[Row]:
    times = events().column("ts").to_pylist()
    ships = events().column("ship").to_pylist()
    row_of: dict[tuple[int, str], list[int]] = {}
    for row, key in enumerate(zip(times, ships, strict=True)):
        row_of.setdefault(key, []).append(row)
    assert all(len(rows) == 1 for rows in row_of.values())
    return [
        (row_of[one["ts"], one["entity"]][0], one["pattern"], one["place"], one["probability"])
        for one in table.to_pylist()
    ]


def test_a_place_is_forecast_as_the_pattern_that_is_written_for_it(folder: Path, words: Words) -> None:
    each = wayeb_py.compile(folder / "each.sre")
    alone = {one.name: one for one in automata_of(wayeb_py.compile(folder / "alone.sre"))}
    for automaton in automata_of(each):
        for place in PORTS:
            assert np.array_equal(automaton.next_state, alone[automaton.name + place].next_state)
    learn(each, [str(folder / "events.parquet")], folder / "model")
    tables = load_tables(each, folder / "model", horizons())
    wanted = expected(words, tables)
    assert len({probability for *_, probability in wanted}) > 5
    forecast(each, tables, [str(folder / "events.parquet")], folder / "soon.parquet")
    assert rows_of(pq.read_table(folder / "soon.parquet")) == wanted

    cuts = [0, 300, 301, 700, 1500]
    operator, made = each.forecaster(folder / "model", "2min", at_least=0.1), []
    for begin, end in pairwise(cuts):
        saved = operator.save() if begin else None
        operator = each.forecaster(folder / "model", "2min", at_least=0.1)
        if saved is not None:
            operator.restore(saved)
        made.append(operator.feed(events().slice(begin, end - begin).combine_chunks().to_batches()[0]))
    likely = [row for row in wanted if row[3] >= 0.1]
    assert 0 < len(likely) < len(wanted)
    assert rows_of(pa.concat_tables([*made, operator.finish()])) == likely

    # `why` reads the word of one place from its beginning.
    told = {row[:3]: row[3] for row in wanted}
    rows = [row for row in range(0, 1500, 97) if (row, "Approach", "B") in told]
    seen = words_at(each, events())
    at = at_one(each.places("port"), "B")
    for row in rows:
        here = seen.row_at(events().column("ship")[row].as_py(), float(events().column("ts")[row].as_py()))
        assert here is not None
        one = expected_after(tables[0], seen.values, seen.chunk, seen.word_begin(here), here, at)
        assert one.probability == told[row, "Approach", "B"]
    assert len(rows) > 5


def test_an_evaluation_learns_and_tries_the_words_of_places(folder: Path, words: Words) -> None:
    each = wayeb_py.compile(folder / "each.sre")
    learner, collector = Learner(each, automata_of(each)), TrialCollector(each, automata_of(each))
    watch(each, learner, events(), [])
    watch(each, collector, events(), [400, 401, 900])  # type: ignore[arg-type]
    ts = events().column("ts").to_numpy()
    for name, counts, trials in zip(EACH, learner.counts(), collector.trials(), strict=True):
        again = learn_from(trials).counts
        assert (again.follows, again.gaps, again.ends, again.matches) == (
            counts.follows, counts.gaps, counts.ends, counts.matches,
        )  # fmt: skip
        expected = []
        for (pattern, place, _), word in words.items():
            is_known = False
            for nth, (symbol, row, begins, _) in enumerate(word if pattern == name else ()):
                is_known = (is_known and not begins) or is_within(row, place, EACH[name][1])
                waits = [ts[other] - ts[row] for _, other, _, detected in word[nth + 1 :] if detected]
                wait = min(waits, default=np.inf)
                if is_known:
                    censored = wait > 120 and ts[row] + 120 > ts[-1]
                    expected.append((int(ts[row]), symbol, float(wait), bool(wait <= 120), bool(censored)))
        found, chunk = outcomes(trials, Horizon.parse("2min")), trials.chunk
        columns = (chunk.ts, trials.symbols, found.wait, found.detected, found.censored)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        assert sorted(row for row, tried in zip(rows, trials.tried, strict=True) if tried) == sorted(expected)
    made, failures = evaluate_files(each, [str(folder / "events.parquet")], horizons(), folder / "page.html")
    assert (len(made), failures) == (4, [])
    assert all(one.n_tried > 100 and one.n_detected > 5 for one in made)


def test_places_that_are_never_alike_are_refused(folder: Path) -> None:
    looks_back = "pattern P for each p in port := (distance(p) < prev(distance(p)))\n"
    (folder / "prev.sre").write_text(STREAM + looks_back)
    with pytest.raises(UsageError, match=r"for each place: .* is another for every place"):
        automata_of(wayeb_py.compile(folder / "prev.sre"))
