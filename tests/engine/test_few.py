"""A few events by one call give what the ordinary way gives: the same detections, counts and rows aside, and the same
state, byte by byte, whichever way took the events before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.cases import KEY, TIME, corpus, stream_block
from tests.engine.test_corpus import job_of
from tests.engine.test_properties import LIMITS, Scene, scenes
from tests.engines import Job, random_cuts
from tests.strategies import ALL_ATOMS, PLAIN_ATOMS, examples
from wayeb_py.compiler.limits import Limits
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.few.few_events import FewEvents
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.files.output.table_text import objects_of_values, plain_table, render_objects
from wayeb_py.parallel.stream.gather import aligned

CASES = dict(corpus())
Way = Literal["ordinary", "batches", "ordinary rows", "rows"]
PLAIN_AND_MORE = (*PLAIN_ATOMS, *ALL_ATOMS[2:4], ALL_ATOMS[7])  # numbers, truths, `elapsed()`


@contextmanager
def at_most(room: int) -> Iterator[None]:
    """Up to `room` events count as a few; with 0 all take the batch path."""
    with patch.object(FewEvents, "most", room):
        yield


def n_alike(found: Detections) -> int:
    """How many detections are had without a table: with the values, ids and lines that the table has."""
    few = found.few()
    if few is None:
        return 0
    table, own = plain_table(with_ids(found.to_arrow())), few.with_ids()
    assert own.to_arrow().schema == table.schema
    assert repr(own.to_arrow().to_pylist()) == repr(table.to_pylist())
    assert objects_of_values(own.columns, own.types) == render_objects(table)
    wider = table.schema.append(pa.field("of_another", pa.dictionary(pa.int32(), pa.string())))
    assert repr(own.aligned(wider).to_arrow().to_pylist()) == repr(aligned(table, wider).to_pylist())
    return len(few)


class Run:
    """A recogniser that is fed one way, and all that it gave."""

    def __init__(self, job: Job, way: Way, limits: Limits | None) -> None:
        self.way, self.patterns = way, job.compile(limits)
        self.table, self.order = job.fed()
        self.recogniser = wayeb_py.Recogniser(self.patterns, order=self.order)
        self.recogniser.bind(self.table.schema)
        self.found: list[pa.Table] = []
        self.n_few = 0
        self.n_without_table = 0

    def feed(self, begin: int, end: int) -> None:
        some = self.table.slice(begin, end - begin)
        given: Any = some.to_pylist() if self.way.endswith("rows") and len(some) else some
        with at_most(0 if self.way.startswith("ordinary") else 32), self.counted():
            try:
                found = self.recogniser.feed(given)
                self.n_without_table += n_alike(found)
                self.found.append(found.to_arrow())
            except Disorder as wrong:
                self.found.append(pa.table({"entity": [str(wrong.entity)], "row": [wrong.row]}))
            except OverflowError:  # of a list of rows with whole numbers that Arrow has no type for
                self.found.append(pa.table({"row": [-1]}))

    @contextmanager
    def counted(self) -> Iterator[None]:
        step = FewEvents.step

        def counting(few: FewEvents, n: int) -> Any:
            done, found = step(few, n)
            self.n_few += done
            return done, found

        with patch.object(FewEvents, "step", counting):
            yield

    def begin_again(self) -> None:
        saved = self.recogniser.save()
        self.recogniser = wayeb_py.Recogniser(self.patterns, order=self.order, saved=saved or None)

    def facts(self) -> tuple[Any, ...]:
        """All that a caller can see."""
        recogniser = self.recogniser
        aside = [(reason, rows.to_pylist()) for reason, rows in recogniser.aside]
        return recogniser.save(), recogniser.counts.to_json(), repr(aside), repr(self.found[-1].to_pylist())


def compare(job: Job, cuts: Sequence[int], ways: Sequence[Way], limits: Limits | None, again: Sequence[int]) -> int:
    """Feeds all ways in the same cuts, and compares them after each; how many events took the way for a few."""
    runs = [Run(job, way, limits) for way in ways]
    ends = [*cuts, job.table.num_rows]
    for number, (begin, end) in enumerate(zip([0, *cuts], ends, strict=True)):
        for run in runs:
            run.feed(begin, end)
        first, *others = [run.facts() for run in runs]
        for other in others:
            assert other == first
        if number in again:
            for run in runs:
                run.begin_again()
        if "row" in runs[0].found[-1].column_names:
            break  # a recogniser cannot be used after a disorder
    return sum(run.n_few for run in runs)


def rows_can_be_given(table: pa.Table) -> bool:
    """Whether Arrow makes of a list of rows what the table has: not of decimals and the like."""
    return all(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or type_ in (pa.string(), pa.bool_())
        for type_ in table.schema.types
    )


WAYS: tuple[tuple[Way, ...], ...] = (("ordinary", "batches"), ("ordinary rows", "rows"))


@pytest.mark.parametrize("name", CASES)
def test_every_case_of_the_corpus_leaves_the_same_state(name: str) -> None:
    job = job_of(CASES[name])
    cuts = sorted({*random_cuts(job), *range(3, job.table.num_rows, 3)})
    by_rows = rows_can_be_given(job.table) and len(name) % 2
    compare(job, cuts, WAYS[1 if by_rows else 0], None, [1])


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["p", 'q "1"', "ü"]),
    "whole": (pa.int32(), [-7, 0, 12]),
    "large": (pa.uint64(), [2**64 - 1, 5, 2**63]),
}
TIMES: list[pa.DataType] = [pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("s"), pa.int64()]
EMITTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "x": (pa.float64(), [1.5, None, float("nan"), 1e-9, 2e30]),
    "k": (pa.dictionary(pa.int32(), pa.string()), ["a", None, "b\n"]),
    "b": (pa.bool_(), [True, None, False]),
    "seen": (pa.timestamp("ms"), [10**12, None, -(10**13)]),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("time", TIMES, ids=str)
def test_a_few_detections_of_any_type_are_those_of_the_table(key: str, time: pa.DataType) -> None:
    unit = "in ms" if time == pa.int64() else ""
    attributes = "attr n number attr x number attr k text attr b bool attr seen time"
    block = f"stream s {{ key id time ts {unit} {attributes} }}\n"
    source = block + "pattern A := (n > 0) ; (n > 0) emit x, k\npattern B := (n > 1) emit b, seen\n"
    dice, n, n_alone = np.random.default_rng(3), 120, 0
    columns = {name: pa.array((some * n)[:n], type_) for name, (type_, some) in EMITTED.items()}
    columns["n"] = pa.array(dice.integers(0, 3, n))
    columns["id"] = pa.array([KEYS[key][1][i] for i in dice.integers(0, 3, n)], KEYS[key][0])
    columns["ts"] = pa.array(1_700_000_000 + 7 * np.arange(n), pa.int64()).cast(time)
    table, recogniser = pa.table(columns), wayeb_py.Recogniser(wayeb_py.compile(source), order="sorted")
    for begin in range(0, n, 6):
        n_alone += n_alike(recogniser.feed(table.slice(begin, 6)))
    assert n_alone > n // 2


@pytest.mark.parametrize("type_", [pa.float32(), pa.decimal128(12, 2), pa.date32()], ids=str)
def test_a_type_that_arrow_alone_writes_has_its_table(type_: pa.DataType) -> None:
    source = "stream s { key id time ts in s attr n number attr x number }\npattern A := (n > 0) emit x\n"
    columns = {"id": [1, 1], "ts": [1, 2], "n": [1, 1], "x": pa.array([1, 2], pa.int32()).cast(type_)}
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(source), order="sorted")
    assert recogniser.feed(pa.table(columns)).few() is None
    found = recogniser.feed(pa.table(columns | {"ts": [3, 4]}))
    assert found.few() is None
    assert len(found) == 2


def test_many_cases_of_the_corpus_take_the_way_for_a_few() -> None:
    names = list(CASES)[::7]
    for way in ("batches", "rows"):
        taken = [compare(job, [1, 2], [way], None, []) > 0 for job in (job_of(CASES[name]) for name in names)]
        assert sum(taken) > len(taken) // 3


@settings(max_examples=examples(150))
@given(scenes(atoms=PLAIN_AND_MORE, max_events=40), st.data(), LIMITS)
def test_small_and_large_batches_in_any_mixture_leave_the_same_state(
    scene: Scene, data: st.DataObject, limits: Limits
) -> None:
    ends = data.draw(st.lists(st.integers(0, len(scene.events)), max_size=20))
    again = data.draw(st.lists(st.integers(0, 20), max_size=3))
    job = scene.job()
    compare(job, sorted(ends), data.draw(st.sampled_from(WAYS)), limits, again)


SIMPLE = stream_block("s") + "pattern Twice := (k = 'a') ; (k = 'a') emit y\n".replace("'", '"')


def events(*rows: tuple[str, int, str | None, int | None]) -> list[dict[str, Any]]:
    return [{KEY: key, TIME: time, "k": k, "y": y} for key, time, k, y in rows]


def simple(order: Literal["sorted", "arrival"] = "sorted") -> wayeb_py.Recogniser:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(SIMPLE), order=order)
    recogniser.feed(pa.Table.from_pylist(events(("p", 0, "b", 1), ("q", 0, "b", 1))))
    return recogniser


def test_rows_are_made_only_when_they_are_asked_for() -> None:
    recogniser = simple()
    found = recogniser.feed(events(("p", 1, "a", 5), ("p", 2, "a", 6)))
    assert "_table" not in vars(found)
    assert len(found) == 1
    assert [row["y"] for row in found] == [6]


def test_a_new_entity_in_the_middle_continues_in_order() -> None:
    found = simple().feed(events(("p", 1, "a", 1), ("p", 2, "a", 2), ("new", 3, "a", 3), ("new", 4, "a", 4)))
    assert [(row["entity"], row["ts"], row["y"]) for row in found] == [("p", 2, 2), ("new", 4, 4)]


@pytest.mark.parametrize("most", [0, 32])
def test_a_single_pattern_that_goes_run_by_run_sees_all_that_it_asks(most: int) -> None:
    source = "stream s { key id time ts in s attr x number }\npattern A := (x = 5 or elapsed() < 2 s) within 3 events\n"
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(source, longest=True))
    recogniser.feed([{"id": 1, "ts": 1, "x": 1.0}])
    with at_most(most):
        later = [{"id": 1, "ts": ts, "x": x} for ts, x in ((2, 1.0), (4, 1.0), (7, 5.0), (8, 1.0))]
        found = [len(recogniser.feed([event])) for event in later]
    assert found == [1, 0, 1, 1]


def test_a_disorder_names_the_row_of_the_whole_batch() -> None:
    with pytest.raises(Disorder) as caught:
        simple().feed(events(("p", 5, "a", 1), ("q", 6, "a", 2), ("p", 4, "a", 3)))
    assert (caught.value.entity, caught.value.row) == ("p", 2)


def test_what_a_column_cannot_hold_is_refused_as_in_a_batch() -> None:
    recogniser = simple()
    with pytest.raises(wayeb_py.WayebError, match="`y` was int64"):
        recogniser.feed([{KEY: "p", TIME: 1, "k": "a", "y": "five"}])
    with pytest.raises(wayeb_py.WayebError, match="lacks the column `k`"):
        recogniser.feed([{KEY: "p", TIME: 1, "y": 5}])
    assert recogniser.counts.events == 2


@pytest.mark.parametrize("most", [6, 300])
def test_arrays_give_what_batches_give(most: int) -> None:
    source = (
        "stream s { key id time ts in ms attr k text attr x number attr n number attr b bool }\n"
        'pattern A := (k = "a" and x > 1) ; (b = true and n = 2)\n'
    )
    types = {"k": pa.string(), "x": pa.float32(), "n": pa.int16(), "b": pa.bool_()}
    schema = pa.schema({"id": pa.int64(), "ts": pa.int64(), **types})
    dice = np.random.default_rng(7)
    n = 200
    columns: dict[str, Any] = {
        "id": dice.integers(0, 5, n),
        "ts": np.arange(n),
        "k": [("a", "b", None)[i] for i in dice.integers(0, 3, n)],
        "x": np.where(dice.random(n) < 0.1, np.nan, 3 * dice.random(n)).astype(np.float32),
        "n": dice.integers(1, 3, n).astype(np.int16),
        "b": dice.random(n) < 0.7,
    }
    one, other = (wayeb_py.Recogniser(wayeb_py.compile(source), order="sorted") for _ in range(2))
    one.bind(schema)
    other.bind(schema)
    by_arrays, by_batch = [], []
    begin = 0
    for size in dice.integers(1, most, n).tolist():
        some = {name: column[begin : begin + size] for name, column in columns.items()}
        if len(some["k"]):
            by_arrays += one.feed_arrays(some).to_arrow().to_pylist()
            with at_most(0):
                by_batch += other.feed(pa.RecordBatch.from_pydict(some, schema=schema)).to_arrow().to_pylist()
        begin += size
    assert by_arrays == by_batch != []
    assert one.save() == other.save()


def test_a_missing_whole_number_among_arrays_is_missing() -> None:
    source = "stream s { key id time ts in s attr n number }\npattern Gone := (missing(n)) ; (n = 1)\n"
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(source), order="sorted")
    recogniser.bind(pa.schema({"id": pa.int64(), "ts": pa.int64(), "n": pa.int8()}))
    found = [
        len(recogniser.feed_arrays({"id": np.array([1]), "ts": np.array([ts]), "n": np.array([n])}))
        for ts, n in enumerate((1, np.nan, 1.0, 1))
    ]
    assert found == [0, 0, 1, 0]


def test_times_written_as_text_are_read_as_arrow_reads_them() -> None:
    source = 'stream s { key id time ts attr k text }\npattern Late := (k = "a" and elapsed() > 1 s)\n'
    texts = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5Z", "2024-01-01T00:00:02Z", "2024-01-01T00:00:04.123456Z")
    schema = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "k": pa.string()})
    found = []
    for room in (0, 32):
        recogniser = wayeb_py.Recogniser(wayeb_py.compile(source), order="sorted")
        recogniser.bind(schema)
        with at_most(room):
            for text in texts:
                found.append(recogniser.feed([{"id": 1, "ts": text, "k": "a"}]).to_arrow().to_pylist())
        found.append(cast(Any, recogniser.save()))
    assert found[: len(texts) + 1] == found[len(texts) + 1 :]
    assert [len(some) for some in found[: len(texts)]] == [0, 0, 1, 1]
