"""From events to models to rows: counts against a plain loop, the automaton against the engine, any cuts alike."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.entity_recogniser import EntityRecogniser
from wayeb_py.errors import DataError, LimitError, UsageError
from wayeb_py.forecast.counts import EDGES_MS, Counts, bins_of, fold_of
from wayeb_py.forecast.forecaster import Forecaster
from wayeb_py.forecast.learn import Learner
from wayeb_py.forecast.model import Model, fit, from_json, load_model, save_model, to_json
from wayeb_py.forecast.tables import ForecastTables, Horizon, grid_error, make_tables
from wayeb_py.forecast.words.symbols import SymbolReader, Walk
from wayeb_py.run.forecasts import automata_of, forecast, learn

STREAM = """\
stream vehicles {
    key  vehicle
    time ts in s
    forget after 200 s
    attr k text
    attr x number
}
"""
PATTERNS = """\
pattern AfterA  := (k = "a") ; (k = "b")+ ; (k = "c")
pattern Rise    := (x > prev(x)) ; (x > prev(x))
pattern Slow    := (elapsed() > 30 s) ; any ; (k = "a")
pattern Counted := #((k = "a"), (k = "c")) within 4 events
pattern Timed   := #((k = "a"), (k = "c")) within 60 s
pattern After   := (detected(Rise)) ; (k = "a")
pattern Freed   := #((k = "a"), (k = "c")) within 4 events without overlap
pattern Each    := #((k = "a"), (k = "c")) within 4 events from all starts
pattern Once    := #((k = "a"), (k = "c")) within 4 events once from each start
pattern Later   := #((k = "a"), (k = "b"), (k = "c")) within 20 s without overlap
pattern Timely  := #((k = "a"), (k = "c")) within 60 s from all starts
"""


def events(seed: int = 3, n: int = 900, n_vehicles: int = 12) -> pa.Table:
    rng = np.random.default_rng(seed)
    gaps = rng.choice([1, 5, 20, 40, 90, 1500], p=[0.3, 0.3, 0.2, 0.1, 0.09, 0.01], size=n)
    vehicle = rng.integers(0, n_vehicles, size=n)
    return pa.table(
        {
            "vehicle": [f"v{number}" for number in vehicle],
            "ts": np.cumsum(gaps) // 4,
            "k": rng.choice(["a", "b", "b", "c"], size=n),
            "x": rng.integers(0, 4, size=n).astype(float),
            "size": [("small", "large")[number % 2] for number in vehicle],
        }
    )


@pytest.fixture(scope="module")
def patterns() -> wayeb_py.Patterns:
    return wayeb_py.compile(STREAM + PATTERNS)


def watch(
    patterns: CompiledPatterns, watcher: Learner | Forecaster, table: pa.Table, cuts: list[int]
) -> list[pa.Table]:
    ((_, part),) = patterns.by_stream.items()
    recogniser = EntityRecogniser(part.single, order="sorted", needs=part.needs)
    recogniser.watcher = watcher
    taken = []
    for begin, end in zip([0, *cuts], [*cuts, len(table)], strict=True):
        for batch in table.slice(begin, end - begin).combine_chunks().to_batches():
            recogniser.feed(batch)
        if isinstance(watcher, Forecaster) and (made := watcher.take()) is not None:
            taken.append(made)
    recogniser.finish()
    return taken


class Recorder:
    """Notes what each event is to each pattern: its symbol, its time since the one before, and whether it detects."""

    def __init__(self, patterns: CompiledPatterns) -> None:
        automata = automata_of(patterns)
        self.readers = [SymbolReader.of(automaton, patterns) for automaton in automata]
        self.walks = [Walk(automaton.next_state) for automaton in automata]
        self.seen: dict[str, list[tuple[int, int, int, int, bool, bool]]] = {a.name: [] for a in automata}

    def watch(self, binding, cohort, chunk, found, rows, begin) -> None:  # type: ignore[no-untyped-def]
        for reader, walk in zip(self.readers, self.walks, strict=True):
            if reader.is_of(cohort):
                symbols = reader.symbols(cohort, chunk)
                _, state = walk.step(symbols, chunk, len(binding.entities))
                detected = np.isin(np.arange(len(symbols)), reader.detected_rows(found))
                self.seen[reader.automaton.name] += zip(
                    chunk.entity.tolist(), symbols.tolist(), chunk.seq.tolist(), chunk.elapsed.tolist(),
                    reader.automaton.detects[state].tolist(), detected.tolist(), strict=True,
                )  # fmt: skip


@pytest.fixture(scope="module")
def seen(patterns: wayeb_py.Patterns) -> dict[str, list[tuple[int, int, int, int, bool, bool]]]:
    recorder = Recorder(patterns)
    watch(patterns, recorder, events(), [])  # type: ignore[arg-type]
    return recorder.seen


@pytest.mark.parametrize("name", ["AfterA", "Rise", "Slow", "Counted", "After", "Freed", "Each"])
def test_the_automaton_detects_where_the_engine_does(seen, name: str) -> None:  # type: ignore[no-untyped-def]
    detects = [row[4] for row in seen[name]]
    assert detects == [row[5] for row in seen[name]]
    assert 5 < sum(detects) < len(detects)


@pytest.mark.parametrize("name", ["Timed", "Once", "Later", "Timely"])
def test_where_an_automaton_cannot_see_it_all_it_detects_wherever_the_engine_does_and_more(  # type: ignore[no-untyped-def]
    seen, name: str
) -> None:
    rows = seen[name]
    assert all(row[4] for row in rows if row[5])
    assert 0 < sum(row[5] for row in rows) < sum(row[4] for row in rows)


def test_counts_are_those_of_a_plain_loop(patterns: wayeb_py.Patterns, seen) -> None:  # type: ignore[no-untyped-def]
    learner = Learner(patterns, automata_of(patterns), order=2)
    watch(patterns, learner, events(), [100, 101, 640])
    names = list(dict.fromkeys(events().column("vehicle").to_pylist()))
    for automaton, counts in zip(automata_of(patterns), learner.counts(), strict=True):
        expected = Counts(2)
        words: dict[int, list[int]] = {}
        for entity, symbol, seq, elapsed, accepts, detected in seen[automaton.name]:
            fold = fold_of(names[entity])
            if seq == 0 and words.get(entity):
                expected.ends["", fold, tuple(words[entity][-2:])] += 1
            word = words[entity] = [] if seq == 0 else words[entity]
            expected.follows["", fold, tuple(word[-2:]), symbol] += 1
            if seq:
                expected.gaps["", word[-1], symbol, int(bins_of(np.array([elapsed]), 1)[0])] += 1
            word.append(symbol)
            if accepts:
                expected.matches[int(detected), True] += 1
        assert counts.follows == expected.follows
        assert counts.ends == expected.ends
        assert counts.gaps == expected.gaps
        assert sum(n for (_, within), n in counts.matches.items() if within) == expected.matches[1, True]
        assert counts.matches.total() == expected.matches.total()
        assert counts.ends.total() > 0


def test_counts_add_up_whatever_part_of_the_entities_each_saw(patterns: wayeb_py.Patterns) -> None:
    table = events()
    whole, *parts = (Learner(patterns, automata_of(patterns), order=2, by=None) for _ in range(3))
    watch(patterns, whole, table, [])
    is_small = np.array([size == "small" for size in table.column("size").to_pylist()])
    for part, own in zip(parts, (is_small, ~is_small), strict=True):
        watch(patterns, part, table.filter(pa.array(own)), [])
    for expected, one, other in zip(whole.counts(), parts[1].counts(), parts[0].counts(), strict=True):
        one.add(other)
        assert one == expected


def test_a_time_between_events_is_in_the_bin_whose_edge_it_has_reached() -> None:
    times_ms = np.array([0, 1, 2, 9_999, 10_000, 10**12])
    for per_s, times in ((1_000, times_ms), (10**9, times_ms * 10**6), (1, times_ms // 1_000)):
        bins = bins_of(times, per_s)
        exact_ms = times // (per_s // 1_000) if per_s > 1 else times * 1_000
        assert (EDGES_MS[bins] <= exact_ms).all()
        assert (exact_ms < EDGES_MS[bins + 1]).all()


def model_of(patterns: wayeb_py.Patterns, name: str, by: str | None = None) -> Model:
    from wayeb_py.forecast.tables import reading_also

    patterns = patterns.select([name])
    automata = automata_of(patterns)
    patterns = reading_also(patterns, by)  # type: ignore[assignment]
    learner = Learner(patterns, automata, by=by)
    watch(patterns, learner, events(), [300])
    return fit(automata[0], learner.counts()[0], by)


def rows_of(patterns: wayeb_py.Patterns, tables: list[ForecastTables], cuts: list[int]) -> pa.Table:
    return pa.concat_tables(watch(patterns, Forecaster(patterns, tables), events(4), cuts))


def by_pattern(table: pa.Table) -> dict[str, list[dict[str, object]]]:
    """The rows of each pattern, in their order."""
    found: dict[str, list[dict[str, object]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["pattern"], []).append(row)
    return found


def test_forecasts_do_not_depend_on_how_the_events_are_cut(patterns: wayeb_py.Patterns) -> None:
    chosen = patterns.select(["AfterA", "Slow"])
    horizons = {"AfterA": Horizon(seconds=Fraction(600), text="10 min"), "Slow": Horizon(events=8, text="8 events")}
    tables = [make_tables(model_of(patterns, name), horizons[name], 0.3) for name in chosen.names]
    whole = rows_of(chosen, tables, [])
    assert len(whole) == 2 * len(events(4))
    assert by_pattern(rows_of(chosen, tables, [1, 2, 50, 51, 600])) == by_pattern(whole)
    assert whole.column("from").null_count < len(whole)
    assert whole.column("from_events").null_count < len(whole)


def test_a_row_says_what_the_node_of_its_word_says(patterns: wayeb_py.Patterns) -> None:
    chosen = patterns.select(["AfterA"])
    tables = make_tables(model_of(patterns, "AfterA"), Horizon(seconds=Fraction(120), text="2 min"), 0.4)
    table = rows_of(chosen, [tables], [])
    recorder = Recorder(chosen)
    watch(chosen, recorder, events(4), [])  # type: ignore[arg-type]
    node_of: dict[int, int] = {}
    for row, (entity, symbol, seq, *_) in zip(table.to_pylist(), recorder.seen["AfterA"], strict=True):
        before = 0 if seq == 0 else node_of[entity]
        node = node_of[entity] = int(tables.nodes.next_node[before, symbol])
        assert row["probability"] == pytest.approx(tables.wait[0, node].sum())
        assert (row["from"] is None) == (row["probability"] < 0.4 - 1e-9)
        assert row["from"] is None or row["ts"] <= row["from"] <= row["until"] <= row["ts"] + 120


def test_a_class_has_probabilities_of_its_own(patterns: wayeb_py.Patterns) -> None:
    model = model_of(patterns, "AfterA", by="size")
    tables = make_tables(model, Horizon(events=5, text="5 events"), 0.7)
    assert tables.classes == ("large", "small")
    assert not np.allclose(tables.probability[1], tables.probability[2])
    assert np.abs(tables.probability[1] - tables.probability[0]).max() < 0.2


def test_the_grid_of_time_is_said_to_be_off_by_more_where_it_is_coarse(patterns: wayeb_py.Patterns) -> None:
    model = model_of(patterns, "AfterA")
    fine, coarse = (grid_error(model, Horizon(seconds=Fraction(s), text="")) for s in (600, 20_000))
    assert 0 < fine < 1
    assert coarse > 0
    assert grid_error(model, Horizon(events=5)) == 0


def test_a_model_comes_back_from_its_file_and_is_refused_for_another_pattern(
    patterns: wayeb_py.Patterns, tmp_path: Path
) -> None:
    model = model_of(patterns, "AfterA", by="size")
    path = save_model(model, tmp_path / "models")
    again = load_model(model.automaton, tmp_path / "models")
    assert (again.counts, again.choice, again.by) == (model.counts, model.choice, "size")
    assert from_json(json.loads(json.dumps(to_json(model))), model.automaton) == again
    other = wayeb_py.compile(STREAM + 'pattern AfterA := (k = "a") ; (k = "b") ; (k = "c")')
    (changed,) = automata_of(other)
    with pytest.raises(DataError, match="the pattern has changed since"):
        load_model(changed, tmp_path / "models")
    path.write_text(path.read_text().replace('"version": 1', '"version": 99'))
    with pytest.raises(DataError, match="version 99"):
        load_model(model.automaton, tmp_path / "models")
    path.write_text("{}")
    with pytest.raises(DataError, match="no model that `wayeb learn` wrote"):
        load_model(model.automaton, tmp_path / "models")
    with pytest.raises(DataError, match="there is no model of `AfterA`"):
        load_model(model.automaton, tmp_path)


def test_files_in_disorder_give_the_same_models_and_forecasts(patterns: wayeb_py.Patterns, tmp_path: Path) -> None:
    chosen = patterns.select(["AfterA", "Rise"])
    table = events()
    pq.write_table(table, tmp_path / "ordered.parquet")
    shuffled = np.concatenate([np.arange(450, 900), np.arange(450)])
    pq.write_table(table.take(pa.array(shuffled)), tmp_path / "shuffled.parquet")
    written = []
    for name in ("ordered", "shuffled"):
        models, summary = learn(chosen, [tmp_path / f"{name}.parquet"], tmp_path / name)
        assert summary.events == 900
        tables = [make_tables(model, Horizon(events=6, text="6 events"), 0.5) for model in models]
        made = forecast(chosen, tables, [tmp_path / f"{name}.parquet"], tmp_path / f"{name}.ndjson", at_least=0.2)
        written.append([(tmp_path / name / "Rise.json").read_bytes(), (tmp_path / f"{name}.ndjson").read_bytes()])
        assert made.forecasts.total() == len(written[-1][1].splitlines())
        assert 0 < made.forecasts.total() < 1800
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('pattern P := (k = "a") ; silence 1 min', "ends in a silence"),
        ("pattern P := (any) as y ; (x > y.x) within 5 min", "ask for other events of the match"),
    ],
)
def test_what_has_no_forecasts_is_refused_with_the_reason(text: str, message: str) -> None:
    stream = STREAM.replace("attr k", "position lon, lat\n    lateness 1 min\n    attr k")
    with pytest.raises(UsageError, match=message):
        automata_of(wayeb_py.compile(stream + text))


def test_limits_give_both_numbers_and_the_knob(patterns: wayeb_py.Patterns) -> None:
    (automaton,) = automata_of(patterns.select(["AfterA"]))
    with pytest.raises(LimitError) as order:
        Learner(patterns.select(["AfterA"]), [automaton], order=12)
    assert "a table of" in str(order.value)
    assert "1,048,576 entries" in str(order.value)
    assert "--order" in str(order.value)
    model = model_of(patterns, "AfterA")
    with pytest.raises(LimitError) as nodes:
        fit(automaton, model.counts, most_nodes=3)
    assert "more than 3 nodes, the limit is 3 nodes" in str(nodes.value)
    with pytest.raises(LimitError) as tables:
        make_tables(model, Horizon(events=10_000_000), 0.5)
    assert "40,000,000 numbers" in str(tables.value)


def test_a_larger_limit_of_nodes_allows_longer_contexts(patterns: wayeb_py.Patterns) -> None:
    model = model_of(patterns, "AfterA")
    counts = Counts(2)
    for a, b, c in product(range(model.automaton.n_symbols), repeat=3):  # the last but one decides what follows
        for fold in range(2):
            counts.follows["", fold, (a, b), c] = 90 if a == c else 5
    longer = fit(model.automaton, counts)
    shorter = fit(model.automaton, counts, most_nodes=len(longer.nodes()) - 1)
    assert (longer.choice.order, shorter.choice.order) == (2, 0)
