"""Whatever a text file holds, every row of it becomes an event or is set aside with a reason."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.projection import Wanted, WantedColumn
from wayeb_py.files.read import open_events

WANTED = Wanted(
    (
        WantedColumn("id", "key"),
        WantedColumn("ts", "time"),
        WantedColumn("speed", "attribute", "number"),
        WantedColumn("engine", "attribute"),
        WantedColumn("on", "attribute", "bool"),
        WantedColumn("seen", "attribute", "time"),
    )
)

VALUES = st.sampled_from(
    [
        "", "a", "7", "007", "-1.5", "1e400", "nan", "inf", "NA", "0x1f", " 3 ", "true", "TRUE", "0", "é", "\x00",
        "2016-01-01", "2016-02-30", "2016-01-01T10:00:00Z", "2016-01-01 10:00:00.123456789+02:00", "24:00",
        "9999999999999999999", '"', '""', '"x"', "x\ny", "\r", "9999-12-31T23:59:59", "0001-01-01", "1_000",
    ]
)  # fmt: skip

CSV_LINES = st.lists(VALUES, min_size=0, max_size=8).map(",".join)
JSON_VALUES = st.one_of(
    VALUES.map(lambda text: f'"{text}"'), VALUES, st.sampled_from(["null", "[1]", '{"a": 1}', "1.0"])
)
JSON_LINES = st.one_of(
    VALUES,
    st.fixed_dictionaries({}, optional=dict.fromkeys(WANTED.names, JSON_VALUES)).map(
        lambda fields: "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
    ),
)


def read_all(name: str, content: bytes) -> tuple[int, int, int]:
    """Rows, events and rows set aside."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        n_rows = n_events = n_aside = 0
        for block in open_events([path], WANTED).blocks():
            n_rows += block.n_rows
            n_aside += len(block.aside)
            for batch in block.batches:
                batch.validate(full=True)
                assert batch.column("id").null_count == batch.column("ts").null_count == 0
                n_events += batch.num_rows
    return n_rows, n_events, n_aside


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.lists(CSV_LINES, max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_every_row_of_a_csv_file_is_accounted_for(lines: list[str], end: str, ends_with_newline: bool) -> None:
    good = "a,2016-01-01,1,on,true,2016-01-01"
    most = [good] * (1 + len(lines))  # they decide that the times are dates and no numbers without a unit
    text = end.join([",".join(WANTED.names), *most, *lines]) + (end if ends_with_newline else "")
    n_rows, n_events, n_aside = read_all("e.csv", text.encode())
    assert n_rows == n_events + n_aside
    assert n_rows >= len(most)


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.lists(JSON_LINES, max_size=12))
def test_every_line_of_an_ndjson_file_is_accounted_for(lines: list[str]) -> None:
    good = '{"id": "a", "ts": "2016-01-01", "speed": 1, "engine": "on", "on": true, "seen": "2016-01-01T00:00:00"}'
    most = [good] * (1 + len(lines))  # they decide that the times are dates and no numbers without a unit
    text = "\n".join([*most, *lines])
    n_rows, n_events, n_aside = read_all("e.ndjson", text.encode())
    assert n_rows == n_events + n_aside == sum(bool(line.strip()) for line in text.split("\n"))


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.binary(max_size=200), st.sampled_from(["e.csv", "e.ndjson", "e.parquet", "e.arrow", "e.arrows", "e.csv.gz"]))
def test_any_bytes_are_read_or_refused_in_a_sentence(content: bytes, name: str) -> None:
    refusal = None
    try:
        n_rows, n_events, n_aside = read_all(name, content)
    except (DataError, EventsError) as error:  # anything else that is raised fails this test
        refusal = error.message
    assert n_rows == n_events + n_aside if refusal is None else refusal.strip() and "\n" not in refusal


def as_csv(rows: Sequence[tuple[str, ...]]) -> bytes:
    return "\n".join([",".join(WANTED.names), *(",".join(row) for row in rows)]).encode()


def as_ndjson(rows: Sequence[tuple[str, ...]]) -> bytes:
    line = '{{"id": "{}", "ts": "{}", "speed": {}, "engine": "{}", "on": {}, "seen": "{}"}}'
    return "\n".join(line.format(*row) for row in rows).encode()


@pytest.mark.parametrize(("name", "render"), [("e.csv", as_csv), ("e.ndjson", as_ndjson)])
def test_a_fault_does_not_change_how_the_other_rows_are_read(
    name: str, render: Callable[[Sequence[tuple[str, ...]]], bytes]
) -> None:
    rows = [(f"k{i}", f"2016-01-01T00:00:{i:02}.5Z", f"{i / 3}", "NA", "true", "2016-01-01") for i in range(60)]

    def values(content: bytes) -> list[object]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            return [row for batch in open_events([path], WANTED) for row in batch.to_pylist()]

    clean = values(render(rows))
    assert len(clean) == 60
    assert values(render([*rows, ("bad", "never", "0", "x", "true", "2016-01-01")])) == clean
