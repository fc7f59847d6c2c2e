"""Flat JSON lines are read as Arrow reads them, or not at all."""

from __future__ import annotations

import json
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.json as pjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from wayeb_py.files.formats.arrow_types import TEXT
from wayeb_py.files.formats.flat_json import read_flat
from wayeb_py.files.kernels import scan_json

SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("name", pa.string()), ("ts", pa.timestamp("ms", "UTC")), ("at", pa.timestamp("us")),
        ("speed", pa.float64()), ("on", pa.bool_()),
    ]
)  # fmt: skip


def by_arrow(data: bytes) -> pa.Table | None:
    options = pjson.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
    try:
        return pjson.read_json(pa.BufferReader(data), pjson.ReadOptions(use_threads=False), options)
    except pa.ArrowInvalid:
        return None


def spelt(values: st.SearchStrategy[object]) -> st.SearchStrategy[str]:
    return values.map(lambda value: json.dumps(value, ensure_ascii=False))


DIGITS = st.text("0123456789", min_size=1, max_size=25)
NUMBERS = st.one_of(
    spelt(st.integers(-(2**70), 2**70)),
    spelt(st.floats(allow_nan=False, allow_infinity=False)),
    st.builds("{}{}{}{}".format, st.sampled_from(["", "-", "+"]), DIGITS, st.sampled_from(["", ".", ".5", ".0625"]),
              st.sampled_from(["", "e5", "E-7", "e+22", "e-30", "e400", "e"])),
)  # fmt: skip
FRACTIONS = st.sampled_from(["", ".", ".1", ".12", ".123", ".1234", ".123456", ".123456789", ",5"])
TIMES = st.builds(
    '"{:04d}-{:02d}-{:02d}{}{:02d}:{:02d}:{:02d}{}{}"'.format,
    st.integers(1600, 2300), st.integers(0, 13), st.integers(0, 32), st.sampled_from("T Tx"), st.integers(0, 24),
    st.integers(0, 60), st.integers(0, 60), FRACTIONS, st.sampled_from(["", "Z", "+00:00", "z"]),
)  # fmt: skip
TEXTS = st.one_of(spelt(st.text()), st.sampled_from(['"a', '"\\u0041"', '"tab\t"', '"\x7f"', '""', "'a'"]))
WORDS = st.sampled_from(["true", "false", "null", "True", "nul", "{}", "[]", '{"id": 1}', "[1, 2]", ""])
VALUES = st.one_of(NUMBERS, TIMES, TEXTS, WORDS)
DATES = st.datetimes(datetime(1700, 1, 1), datetime(2200, 12, 31))
USUAL = {
    "id": spelt(st.integers(-(10**17), 10**17)), "name": spelt(st.text(st.characters(exclude_categories=["Cc", "Cs"]))),
    "ts": DATES.map(lambda at: f'"{at:%Y-%m-%dT%H:%M:%S}.250Z"'),
    "at": DATES.map(lambda at: f'"{at:%Y-%m-%d %H:%M:%S.%f}"'),
    "speed": spelt(st.floats(-1e6, 1e6)), "on": st.sampled_from(["true", "false", "null"]),
    "other": st.sampled_from(["1", '"x"', "null", "-0.5e3"]),
}  # fmt: skip
BLANKS = st.sampled_from(["", " ", "  ", "\t", "\r", "\n"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line that is usual but for a value, a blank or a name."""
    names = draw(st.permutations(list(USUAL)))[: draw(st.integers(0, 7))]
    cells = [(f'"{name}"', draw(USUAL[name])) for name in names]
    is_odd: bool = draw(st.booleans())
    if cells and is_odd:
        at = draw(st.integers(0, len(cells) - 1))
        name, value = cells[at]
        odd = draw(st.sampled_from([name, '"speed"', '"na\\u006de"', "id", '""', '"ids"']))
        cells[at] = odd, draw(st.one_of(VALUES, st.just(value)))
    blank = draw(BLANKS) if draw(st.booleans()) else ""
    return "{" + blank + f",{blank}".join(f"{name}{blank}:{blank}{value}" for name, value in cells) + blank + "}"


@settings(max_examples=examples(1000), deadline=None, derandomize=True)
@given(st.lists(lines(), min_size=1, max_size=4), st.sampled_from(["\n", "\n", "\r\n", "\n\n", " "]), st.booleans())
def test_what_is_read_is_what_arrow_reads(given_lines: list[str], between: str, ends: bool) -> None:
    data = (between.join(given_lines) + ("\n" if ends else "")).encode("utf-8", "surrogatepass")
    found = read_flat(data, len(given_lines), SCHEMA)
    if found is not None:
        assert pa.Table.from_batches([found]).equals(by_arrow(data))


def row(**values: object) -> dict[str, object]:
    times = {"ts": "2026-01-31T23:59:59.123Z", "at": "2026-02-28 00:00:00"}
    return {"id": 7, "name": "Ärger", **times, "on": True} | values


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([row(speed=1.5), row(speed=0), row(speed=-2e-3), row(speed=1e22)], id="numbers"),
        pytest.param([row(speed=0.1 + 0.2), row(speed=1.7976931348623157e280), row(speed=5e-324)], id="with care"),
        pytest.param([row(speed=None, on=None, name=None), {"id": -1}, {}], id="what is missing"),
        pytest.param([row(extra="x", more=1.25, none=None, yes=False)], id="names that nobody reads"),
        pytest.param([row(id=n, speed=n / 8) for n in range(500)], id="many"),
    ],
)
def test_usual_lines_are_read(rows: list[dict[str, object]]) -> None:
    data = b"\n".join(json.dumps(one, ensure_ascii=False).encode() for one in rows)
    found = read_flat(data, len(rows), SCHEMA)
    assert found is not None
    assert pa.Table.from_batches([found]).equals(by_arrow(data))


@pytest.mark.parametrize(
    "line",
    [
        '{"id": 1', '{"id": 1}x', '{"id": 01}', '{"id": 1.0}', '{"id": "1"}', '{"id": 1, "id": 1}', '{"id": 1,}',
        '{"name": "a\\n"}', '{"name": {"a": 1}}', '{"x": [1]}', '{"ts": "2026-02-29T00:00:00.000Z"}', '{"x": tru}',
        '{"ts": "2026-01-31T23:59:59.123"}', '{"id": 1}\n\n', "", "[]", '{"speed": NaN}', '{"speed": .5}',
        '{"speed": 1.}',
    ],
)  # fmt: skip
def test_anything_else_is_left_to_others(line: str) -> None:
    assert read_flat(line.encode(), 1, SCHEMA) is None


LONG = st.integers(2**53, 10**17)
NUMBER = pa.schema([("speed", pa.float64())])


@settings(max_examples=examples(1000), deadline=None, derandomize=True)
@given(st.lists(st.tuples(LONG, st.integers(1, 22)), min_size=1, max_size=20))
@example([(90071992547409930, 1), (90071992547409950, 1), (90071992547409929, 1)])  # between two floats, and beside
def test_numbers_of_seventeen_digits_are_the_nearest_floats(numbers: list[tuple[int, int]]) -> None:
    texts = [f"{digits}e-{power}" for digits, power in numbers]
    found = read_flat("\n".join(f'{{"speed": {text}}}' for text in texts).encode(), len(texts), NUMBER)
    assert found is not None
    assert found.column("speed").to_pylist() == [float(text) for text in texts]


def test_floats_as_they_are_written_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is read again as a text, which takes twice as long."""
    floats = np.random.default_rng(4).uniform(-1000, 1000, 2000)
    calls = []
    scan = scan_json.scan_objects

    def counted(*given: object) -> object:
        calls.append(given)
        return scan(*given)

    monkeypatch.setattr(scan_json, "scan_objects", counted)
    found = read_flat("\n".join(f'{{"speed": {value!r}}}' for value in floats.tolist()).encode(), 2000, NUMBER)
    assert found is not None
    assert np.array_equal(found.column("speed").to_numpy(), floats)
    assert len(calls) == 1


def test_texts_become_words_of_a_dictionary_where_a_schema_has_them_so() -> None:
    schema = pa.schema([("name", TEXT)])
    found = read_flat(b'{"name": "a"}\n{"name": null}\n{"name": "a"}', 3, schema)
    assert found is not None
    assert found.schema == schema
    assert found.column("name").to_pylist() == ["a", None, "a"]
