"""Forecasts of pairs: counts and probabilities are those of a plain loop over the words of pairs, as the definitions
have them, however the events are cut, saved and restored."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.oracle_several import (
    PairEvent,
    Pairing,
    Sent,
    pairs_of,
    position_of,
    put_in_order,
    recognise_pairs,
    words_of_pair,
)
from tests.pairs.forms import as_attributes
from tests.pairs.scenes import STREAM, Scene
from tests.pairs.test_operator import batch_of
from wayeb_py.engine.pairs.operator import PairOperator
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.counts import N_FOLDS, Counts, bins_of, digest_of
from wayeb_py.forecast.evaluation.evaluate import learn_from
from wayeb_py.forecast.evaluation.pair_trials import PairTrialCollector
from wayeb_py.forecast.evaluation.trials import outcomes
from wayeb_py.forecast.expected import expected_after
from wayeb_py.forecast.model import load_model
from wayeb_py.forecast.operator import ForecastOperator
from wayeb_py.forecast.tables import ForecastTables, Horizon
from wayeb_py.run.forecasts import automata_of, evaluate_files, forecast, learn, load_tables, watch_files, watched
from wayeb_py.view.shown_forecasts import forecasts_of
from wayeb_py.why.pairs.explain import locate_pair

BLOCK = """\
stream {} {{
    key id
    time t in s
    position lon, lat
    motion speed, course
    attr speed number in m/s
    attr course number in deg
    attr x number
}}
"""
WAYS = ["one stream", "ordered", "projected", "two streams"]


def yes_or_no(holds: bool, yes: str, no: str) -> str:
    return yes if holds else no


def by_distance(word: list[PairEvent], k: int) -> str:
    half_m = word[k].pairing.reach_m / 2
    return yes_or_no(word[k]["distance(a, b)"] < half_m, "distance(a, b) < ", "distance(a, b) >= ")


def by_turns(word: list[PairEvent], k: int) -> str:
    a, b, above = word[k]["reports(a)"], word[k]["reports(b)"], word[k]["a.x"] > 1
    if not above:
        return "(a.x <= 1 or missing) and " + yes_or_no(a, "reports(a)", "not reports(a)")
    assert a != b
    return "a.x > 1 and " + yes_or_no(b, "not reports(a) and reports(b)", "reports(a) and not reports(b)")


def by_time(word: list[PairEvent], k: int) -> str:
    slow = k > 0 and word[k].e.time_s - word[k - 1].e.time_s > 5
    lower = yes_or_no(word[k]["a.x"] < word[k]["b.x"], "a.x < b.x", "(a.x >= b.x or one is missing)")
    return f"{yes_or_no(slow, 'elapsed() > 5 s', '(elapsed() <= 5 s or missing)')} and {lower}"


KINDS: dict[str, tuple[str, Callable[[list[PairEvent], int], str]]] = {
    "Near": ("(distance(a, b) >= 500 m) ; (distance(a, b) < 500 m)+", by_distance),
    "Turn": ("(reports(a)) ; (a.x > 1 and reports(b)) within 3 events", by_turns),
    "Slow": ("(elapsed() > 5 s) ; any ; (b.x > a.x) within 40 s", by_time),
}


@dataclass(frozen=True)
class Case:
    """Tracks, their patterns over pairs, and the words of pairs by the definitions."""

    scene: Scene
    text: str

    @property
    def names(self) -> tuple[str, ...]:
        return ("vessels", "radar")[: len(self.scene.streams)]

    def patterns(self) -> wayeb_py.Patterns:
        return wayeb_py.compile(self.text)

    def tables(self) -> dict[str, pa.Table]:
        return {
            name: pa.Table.from_batches([batch_of([one for one in self.scene.sent if one.stream == number])])
            for number, name in enumerate(self.names)
        }

    @cached_property
    def words(self) -> list[tuple[Any, Any, list[PairEvent], bool]]:
        """Keys of a and b, the word, and whether it is over when the events end."""
        scene, found = self.scene, []
        events = [
            one for one in put_in_order(scene.sent, scene.streams).events if position_of(one, scene.streams) is not None
        ]
        for x, y in pairs_of(events, scene.pairing):
            for word in words_of_pair(events, scene.streams, scene.pairing, x, y):
                last = word[-1].e
                merged = [one for one in events if one.who in (x, y)]
                is_over = merged[-1] is not last or events[-1].time_s - last.time_s > scene.pairing.fresh_s
                found.append((x[1], y[1], word, is_over))
        return found


def case_of(way: str) -> Case:
    n_streams = 2 if way == "two streams" else 1
    pairing = Pairing(1_000.0, Fraction(60), 0, n_streams - 1, way == "projected", way == "ordered")
    scene = Scene(tracks(n_streams), (STREAM,) * n_streams, pairing, 5)
    who = {"ordered": "ordered pair a, b in vessels", "two streams": "pair a in vessels, b in radar"}
    head = f"for each {who.get(way, 'pair a, b in vessels')} within 1000 m fresh 60 s"
    head += " projected" if way == "projected" else ""
    patterns = "".join(f"pattern {name} {head} := {text}\n" for name, (text, _) in KINDS.items())
    return Case(scene, "".join(BLOCK.format(name) for name in ("vessels", "radar")[:n_streams]) + patterns)


def tracks(n_streams: int, n: int = 280) -> tuple[Sent, ...]:
    """Entities that go round on a line of 3 km, each at its own speed, and report now and then."""
    rng = np.random.default_rng(5)
    sent, t = [], 0
    for _ in range(n):
        t += int(rng.choice([0, 2, 8, 15]))
        key = int(rng.integers(0, 6))
        lon = None if rng.random() < 0.02 else (key * 400 + t * (key + 2)) % 3_000 / 111_195.0
        x = math.nan if rng.random() < 0.03 else float(rng.integers(0, 4))
        event = {"id": key, "t": t, "lon": lon, "lat": 0.0, "speed": float(key + 2), "course": 90.0, "x": x}
        sent.append(Sent(event, stream=key % n_streams))
    return tuple(sent)


@pytest.fixture(scope="module", params=WAYS)
def case(request: pytest.FixtureRequest) -> Case:
    return case_of(request.param)


def symbol_of(automaton: DetectingAutomaton, told: str) -> int:
    """The symbol whose text says this of an event."""
    found = [number for number, text in enumerate(automaton.symbol_texts()) if told in text]
    assert len(found) == 1, (told, automaton.symbol_texts())
    return found[0]


def test_counts_are_those_of_a_plain_loop_over_the_words_of_pairs(case: Case, tmp_path: Path) -> None:
    patterns = case.patterns()
    paths = {}
    for name, table in case.tables().items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=37)
        paths[name] = [str(tmp_path / f"{name}.parquet")]
    models, summary = learn(patterns, paths, tmp_path / "model", order=2)
    assert summary.events == len(case.scene.sent)
    words = case.words
    for model in models:
        automaton, expected = model.automaton, Counts(2)
        for a, b, word, is_over in words:
            fold = (digest_of(str(a)) + digest_of(str(b))) % 2**64 % N_FOLDS
            symbols = [symbol_of(automaton, KINDS[automaton.name][1](word, k)) for k in range(len(word))]
            for k, symbol in enumerate(symbols):
                expected.follows["", fold, tuple(symbols[max(0, k - 2) : k]), symbol] += 1
                if k:
                    gap = np.array([int(word[k].e.time_s - word[k - 1].e.time_s)])
                    expected.gaps["", symbols[k - 1], symbol, int(bins_of(gap, 1)[0])] += 1
            if is_over:
                expected.ends["", fold, tuple(symbols[-2:])] += 1
        counts = model.counts
        assert (counts.follows, counts.gaps, counts.ends) == (expected.follows, expected.gaps, expected.ends)
        assert counts.n_words == len(words) > counts.ends.total() > 5
        detected = detections_of(case, patterns, automaton.name)
        assert sum(n for (_, within), n in counts.matches.items() if within) == len(detected) > 5
        assert load_model(automaton, tmp_path / "model").counts == counts


Row = tuple[str, Any, Any, int, int, float, int | None, int | None]  # pattern, a, b, ts, seq, and what is forecast


def expected_rows(case: Case, tables: list[ForecastTables]) -> list[Row]:
    """The forecasts by the definition, those of the node after all events of the word, in the order of detections: by
    event, pattern, and keys."""
    made = []
    at = {id(one.event): nth for nth, one in enumerate(put_in_order(case.scene.sent, case.scene.streams).events)}
    for number, own in enumerate(tables):
        automaton = own.model.automaton
        for a, b, word, _ in case.words:
            node = 0
            for k, one in enumerate(word):
                node = int(own.nodes.next_node[node, symbol_of(automaton, KINDS[automaton.name][1](word, k))])
                ts, probability = int(one.e.time_s), float(own.probability[0, node])
                first, last = int(own.first[0, node]), int(own.last[0, node])
                # A step of 2 s reaches a second to both sides.
                begin = None if first < 0 else ts + max(0, 2 * first - 1)
                end = None if first < 0 else ts + min(120, 2 * last + 1)
                made.append(
                    ((at[id(one.e.event)], number), (automaton.name, a, b, ts, k, probability, begin, end))
                )
    return [row for _, row in sorted(made, key=lambda one: (one[0], one[1][1:3]))]


def rows_of(table: pa.Table) -> list[Row]:
    names = ("pattern", "entity", "other", "ts", "seq", "probability", "from", "until")
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


@pytest.fixture(scope="module")
def learnt(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    for name, table in case.tables().items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=37)
    learn(case.patterns(), paths_of(case, folder), folder / "model")
    return folder


def paths_of(case: Case, folder: Path) -> dict[str, list[str]]:
    return {name: [str(folder / f"{name}.parquet")] for name in case.names}


def test_a_pair_is_forecast_by_the_node_that_its_word_has_reached(case: Case, learnt: Path) -> None:
    patterns = case.patterns()
    tables = load_tables(patterns, learnt / "model", [(name, Horizon.parse("2min"), 0.3) for name in KINDS])
    wanted = expected_rows(case, tables)
    assert len({row[5] for row in wanted}) > 10
    assert any(row[6] is not None for row in wanted)
    forecast(patterns, tables, paths_of(case, learnt), learnt / "soon.parquet")
    assert rows_of(pq.read_table(learnt / "soon.parquet")) == wanted

    def operator() -> ForecastOperator:
        return ForecastOperator(patterns, tables, at_least=0.3)

    made, soon = [], operator()
    sent = case.scene.sent
    for begin, end in pairwise([0, 3, 120, 121, 200, len(sent)]):
        state = soon.save()
        soon = operator()
        soon.restore(state)
        for number, name in enumerate(case.names):
            batch = batch_of([one for one in sent[begin:end] if one.stream == number])
            made.append(soon.feed(batch, name))
    likely = [row for row in wanted if row[5] >= 0.3]
    assert 0 < len(likely) < len(wanted)
    assert rows_of(pa.concat_tables([*made, soon.finish()])) == likely


def test_an_evaluation_learns_and_tries_the_words_of_pairs(case: Case, learnt: Path) -> None:
    patterns = case.patterns()
    automata = automata_of(patterns)
    made: list[PairTrialCollector] = []

    def of_pairs(operator: PairOperator) -> PairTrialCollector:
        made.append(PairTrialCollector(operator, automata))
        return made[-1]

    def begin(orders: dict[str, Any]) -> Recogniser:
        return watched(patterns, orders, lambda _: None, of_pairs)  # type: ignore[arg-type, return-value]

    watch_files(patterns, paths_of(case, learnt), begin, lambda _: None, None, None)
    end = max(int(one.event["t"]) for one in case.scene.sent if one.event["lon"] is not None)  # type: ignore[arg-type]
    for automaton, trials in zip(automata, made[-1].trials(), strict=True):
        counts, again = load_model(automaton, learnt / "model").counts, learn_from(trials).counts
        assert (again.follows, again.gaps, again.ends, again.matches) == (
            counts.follows, counts.gaps, counts.ends, counts.matches,
        )  # fmt: skip
        detections = detections_of(case, patterns, automaton.name)
        for horizon in (Horizon.parse("2min"), Horizon.parse("3 events")):
            found = outcomes(trials, horizon)
            columns = (trials.chunk.ts, trials.chunk.seq, trials.symbols, found.wait, found.censored)
            rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
            assert rows == sorted(expected_outcomes(case, detections, automaton, horizon, end))
            assert 0 < found.censored.sum() < found.detected.sum() < len(rows)


def detections_of(case: Case, patterns: wayeb_py.Patterns, name: str) -> set[Any]:
    """Pair, time and place in the word of each detection, by the definitions."""
    (pattern,) = (one for one in patterns.meaning.patterns if one.name == name)
    flat = replace(pattern, regex=as_attributes(pattern.regex), pair=None)
    found = recognise_pairs(flat, case.scene.sent, case.scene.streams, case.scene.pairing).detections
    return {(one.entity, int(one.ts), one.seq) for one in found}  # type: ignore[arg-type]


def expected_outcomes(
    case: Case, at: set[Any], automaton: DetectingAutomaton, horizon: Horizon, end: int
) -> list[tuple[int, int, int, float, bool]]:
    """What came after each event of a pair, by trying all later ones."""
    made = []
    for number, (a, b, word, is_over) in enumerate(case.words):
        later_words = [other for x, y, other, _ in case.words[number + 1 :] if (x, y) == (a, b)]
        for k, one in enumerate(word):
            ts = int(one.e.time_s)
            rest = [(int(e.e.time_s), nth) for nth, e in enumerate(word) if nth > k]
            if horizon.events is not None:
                wait = min((nth - k for t, nth in rest if ((a, b), t, nth) in at), default=math.inf)
                censored = wait > horizon.events and len(rest) < horizon.events and not is_over
            else:
                rest += [(int(e.e.time_s), nth) for other in later_words for nth, e in enumerate(other)]
                wait = min((t - ts for t, nth in rest if ((a, b), t, nth) in at), default=math.inf)
                censored = wait > 120 and ts + 120 > end
            made.append((ts, k, symbol_of(automaton, KINDS[automaton.name][1](word, k)), wait, censored))
    return made


def test_a_pair_is_left_out_with_each_of_its_two(case: Case, learnt: Path) -> None:
    horizons = [(name, Horizon.parse("2min"), 0.3) for name in KINDS]
    made, failures = evaluate_files(case.patterns(), paths_of(case, learnt), horizons, learnt / "page.html")
    assert (len(made), failures) == (6, [])
    keys = sorted({str(key) for a, b, _, _ in case.words for key in (a, b)})
    left_out = min(digest_of(key) % N_FOLDS for key in keys)
    for one in made:
        n = dict.fromkeys((False, True), 0)
        for a, b, word, _ in case.words:
            n[left_out in (digest_of(str(a)) % N_FOLDS, digest_of(str(b)) % N_FOLDS)] += len(word)
        if one.split == "entity":
            assert (one.n_learnt, one.n_tried + one.n_censored) == (n[False], n[True])
        assert 0 < one.n_detected < one.n_tried


def test_why_says_what_the_forecast_says_and_a_map_shows_it_for_both(case: Case, learnt: Path) -> None:
    patterns = case.patterns().select(["Near"])
    horizons = [("Near", Horizon.parse("2min"), 0.3)]
    (tables,) = load_tables(patterns, learnt / "model", horizons)
    forecast(patterns, [tables], paths_of(case, learnt), learnt / "near.parquet")
    made = pq.read_table(learnt / "near.parquet")
    rows = {(row["entity"], row["other"], row["ts"]): row for row in made.to_pylist()}  # the last of several at a time
    some = list(rows.items())[:: len(rows) // 6]
    for (a, b, ts), row in some:
        _, _, met, at = locate_pair(patterns, case.tables(), "Near", (str(a), str(b)), Fraction(ts))
        if at is not None:  # one of the two may have left at the same time
            told = expected_after(tables, met.values, met.chunk, met.word_begin(at), at)
            assert (told.probability, int(met.chunk.seq[at])) == (row["probability"], row["seq"])
    assert len(some) > 5
    drawn, _ = forecasts_of(made, "s", [str(key) for key in range(6)], ["Near"])
    spans = [row for row in made.to_pylist() if row["from"] is not None]
    assert sorted(drawn["entity"]) == sorted([row["entity"] for row in spans] + [row["other"] for row in spans])


def test_a_declared_forecast_of_a_pair_and_why_say_the_same(wayeb: Wayeb, case: Case, learnt: Path) -> None:
    (learnt / "p.sre").write_text(case.text + "forecast Near within 2 min with 0.3\n")
    data = [word for name, (path,) in paths_of(case, learnt).items() for word in ("--data", f"{name}={path}")]
    asked = (str(learnt / "p.sre"), *data, "--model", str(learnt / "model"))
    wayeb("forecast", *asked, "--out", str(learnt / "declared.parquet"))
    made = pq.read_table(learnt / "declared.parquet").to_pylist()
    rows = {(row["entity"], row["other"], row["ts"]): row for row in made}
    assert {row["pattern"] for row in rows.values()} == {"Near"}
    (a, b, ts), row = list(rows.items())[len(rows) // 2]
    words = ("--pattern", "Near", "--entity", str(a), "--other", str(b), "--at", str(ts), "--horizon", "2min")
    shown = wayeb("why", *asked, *words).out
    assert "expected: Near within 2min" in shown
    assert f"after {ts} with {row['probability']:.3f}" in shown
