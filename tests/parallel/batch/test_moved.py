"""Files over several entities find the same when their events are moved between tasks as in one process.

The sentences of `docs/several.md`, and random files of both kinds (patterns and pairs, and rules), in random layouts:
splits that begin anywhere, shards of any number, pairs together or by place, rules together or over rows in parts by a
key, events late, tied and in disorder, sent to the task that has all or read there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.parallel.batch.moved import by_key, by_place, move, reading_there, rows_in, spec_of
from tests.rules import random_files
from tests.several import files
from tests.several.test_sentences import CASES, batch_of, compile_case, name_of, said_of, sent_in, shown
from tests.strategies import examples
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.files.formats.block import values_of_rows
from wayeb_py.patterns import Patterns

POOL = {**files.POOL, **files.WITH_TIERS, **files.WITH_WAYS, **files.DARK}
Sent = Mapping[str, Sequence[dict[str, Any]]]


class InProcess:
    """The same events in one recogniser, stream after stream."""

    def __init__(self, patterns: Patterns, tables: Mapping[str, pa.Table], episodes: bool) -> None:
        orders: dict[str, Any] = {
            name: "sorted" if part.stream.lateness_s is None else "arrival"
            for name, part in patterns.by_stream.items()
        }
        self._recogniser = Recogniser(patterns, order=orders, episodes=episodes)
        try:
            self._run(tables, episodes)
        except Disorder:
            self._recogniser = Recogniser(patterns, order=orders, episodes=episodes)
            in_order = {
                name: table.sort_by(patterns.by_stream[name].stream.time) if orders[name] == "sorted" else table
                for name, table in tables.items()
            }
            self._run(in_order, episodes)

    def _run(self, tables: Mapping[str, pa.Table], episodes: bool) -> None:
        recogniser = self._recogniser
        for name, table in tables.items():
            recogniser.bind(table.schema, name)
        found = [recogniser.feed(table, name) for name, table in tables.items()]
        found.append(recogniser.finish())
        self.rows = sorted(
            row for some in found for row in rows_in(some.episodes() if episodes else some.to_arrow())
        )
        self.tally = recogniser.counts
        self.aside = Counter(
            repr((reason, values)) for reason, batch in recogniser.aside for values in values_of_rows(batch)
        )


def compare(
    patterns: Patterns, sent: Sent, schemas: Mapping[str, pa.Schema], dice: random.Random, episodes: bool = False
) -> None:
    names = list(patterns.by_stream)
    tables = {name: pa.Table.from_pylist(list(sent[name]), schemas[name]) for name in names}
    splits = {name: cut(table, dice) for name, table in tables.items()}
    # The file's own columns: what a reader of it would read.
    wanted = {
        name: pa.schema([schemas[name].field(column) for column in dict.fromkeys(need.column for need in part.needs)])
        for name, part in patterns.by_stream.items()
    }
    spec = spec_of(patterns, wanted, dice.choice((1, 2, 5)), episodes)
    if dice.random() < 0.7:
        spec = by_place(spec, patterns, splits, dice.choice((1, 2, 3)))
    if dice.random() < 0.7:
        spec = by_key(spec, patterns, dice.choice((1, 3, 4)), n_events=dice.choice((0, 0, 1_000_000)))
    read = {name: [[b.select(wanted[name].names) for b in own] for own in splits[name]] for name in names}
    moved = move(reading_there(spec, read) if dice.random() < 0.5 else spec, read)
    here = InProcess(patterns, tables, episodes)
    assert moved.rows == here.rows
    assert moved.aside == here.aside
    for count in ("events", "late", "late_for_clock", "duplicates", "bad", "cleaned", "entities"):
        assert getattr(moved.tally, count) == getattr(here.tally, count), count


def cut(table: pa.Table, dice: random.Random) -> list[list[pa.RecordBatch]]:
    """The batches of reading tasks, in the order of arrival; some tasks read nothing."""
    ends = sorted(dice.randrange(table.num_rows + 1) for _ in range(dice.choice((0, 1, 3))))
    bounds = zip([0, *ends], [*ends, table.num_rows], strict=True)
    return [table.slice(begin, end - begin).to_batches(max_chunksize=dice.choice((1, 9, 100))) for begin, end in bounds]


def in_disorder(sent: Sent, lateness_s: Mapping[str, int | None], dice: random.Random) -> Sent:
    """The same events; those of a stream that is put in order come anyhow."""
    return {
        name: dice.sample(list(events), len(events)) if lateness_s[name] is None else events
        for name, events in sent.items()
    }


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_sentence_holds_when_events_are_moved(tmp_path: Path, case: dict[str, Any]) -> None:
    patterns, dice = compile_case(case, tmp_path), random.Random(case["name"])
    tables = {name: pa.Table.from_batches([batch_of(rows)]) for name, rows in sent_in(case).items()}
    columns = {name: list(dict.fromkeys(need.column for need in part.needs)) for name, part in
               patterns.by_stream.items()}  # fmt: skip
    splits = {name: cut(tables[name].select(columns[name]), dice) for name in columns}
    spec = spec_of(patterns, {name: tables[name].select(columns[name]).schema for name in columns}, 2)
    placed = by_place(spec, patterns, splits, 2)
    there = reading_there(spec, splits)
    for own in (spec, there, placed, by_key(there, patterns, 3), by_key(placed, patterns, 2, n_events=1_000_000)):
        found = move(own, splits)
        assert shown(found.tables, "seq" in case) == sorted(said_of(case)["detects"])


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 1 << 30), anyhow=st.booleans(), episodes=st.booleans())
def test_patterns_of_several_streams_find_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int, anyhow: bool, episodes: bool
) -> None:
    dice = random.Random(seed)
    world = files.make_world(seed, POOL, n_events=40)
    patterns = world.compile(tmp_path_factory.mktemp("world"))
    sent = in_disorder(world.sent, world.lateness_s, dice) if anyhow else world.sent
    compare(patterns, sent, files.SCHEMAS, dice, episodes)


@pytest.mark.parametrize("seed", [4, 12, 23, 57])  # a silence of one of a pair, by place, at the end of the input
def test_worlds_that_differed_once(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    world = random_files.make_world(dice)
    patterns = world.compile(tmp_path)
    sent = in_disorder(world.sent, world.lateness_s, dice) if seed % 2 else world.sent
    compare(patterns, sent, random_files.SCHEMAS, dice)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 1 << 30), anyhow=st.booleans(), episodes=st.booleans())
@example(seed=27233, anyhow=False, episodes=False)  # rules that read seconds, another stream is in milliseconds
@example(seed=3, anyhow=False, episodes=True)  # a pair is recognised by place, and again for a rule in one task
def test_rules_find_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int, anyhow: bool, episodes: bool
) -> None:
    dice = random.Random(seed)
    world = random_files.make_world(dice)
    patterns = world.compile(tmp_path_factory.mktemp("world"))
    sent = in_disorder(world.sent, world.lateness_s, dice) if anyhow else world.sent
    compare(patterns, sent, random_files.SCHEMAS, dice, episodes)
