"""The columns of what is found are known, and what does not run is refused, where a job or a stream on Spark begins."""

from __future__ import annotations

import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.engine.priority_levels.validity import Validity
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.errors import DataError
from wayeb_py.parallel.sinks.sinks import Batch
from wayeb_py.parallel.stream.gather import marked
from wayeb_py.parallel.wire.output_schema import (
    output_schema,
    refuse_service,
)

EVENTS = pa.schema([("id", pa.int32()), ("t", pa.timestamp("ms")), ("x", pa.float32())])


def test_the_columns_are_known_before_anything_is_fed() -> None:
    patterns = wayeb_py.compile("stream s { key id time t }\npattern P := (x > 1) emit x\n")
    for episodes in (False, True):
        found = patterns.recognise(EVENTS.empty_table())
        expected = found.episodes().schema if episodes else found.to_arrow().schema
        assert output_schema(patterns, EVENTS, episodes) == expected


PAIR = "pattern M for each pair a, b in s within 1 km fresh 1 h := (a.x > b.x) emit a.x as more\n"
PLACED = "stream s { key id time t position x, y motion x, y lateness 1 h attr y number attr x number }\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("stream s { key id time t }\npattern Gone := (x > 1) ; silence 1 h\n", "Gone"),
        ("stream s { key id time t lateness 1 h }\nrule R := a: s, b: s where a.x = b.x within 1 h\n", "R"),
        (PLACED.replace("motion x, y ", "") + PAIR, "M"),
    ],
)
def test_what_looks_at_several_entities_has_columns(text: str, what: str) -> None:
    patterns = wayeb_py.compile(text)
    events = EVENTS.append(pa.field("y", pa.float32()))
    found = output_schema(patterns, events, False)
    assert found == patterns.recognise(events.empty_table()).to_arrow().schema
    assert "decided_ts" in found.names
    assert list(patterns.clocked) == [what]


def test_files_of_facts_alone_are_refused() -> None:
    facts = wayeb_py.compile('facts a(x, y) from "a.csv"\nrule R := p: a, q: a where p.x = q.y\n')
    with pytest.raises(DataError, match="these rules read files of facts alone"):
        output_schema(facts, EVENTS, False)


@pytest.mark.parametrize(
    ("line", "clause", "what"),
    [
        ("", "shed after 1 s", "`P` says `shed after`"),
        ("", "valid for 1 s", "`P` says `valid for`"),
        ("", "valid for 1 s else drop", "`P` says `valid for … else drop`"),
        ("replace", "", "the stream `s` says `replace`"),
    ],
)
def test_a_stream_refuses_what_it_would_leave_undone(line: str, clause: str, what: str) -> None:
    patterns = wayeb_py.compile(f"stream s {{ key id time t {line} }}\npattern P := (x > 1) priority high {clause}\n")
    with pytest.raises(DataError, match=what):
        refuse_service(patterns)


def test_a_stream_on_spark_marks_what_leaves_too_late_and_drops_nothing() -> None:
    text = "stream s { key id time t in s }\npattern P := (x > 1) valid for 5 s\npattern Q := (x > 0)\n"
    patterns = wayeb_py.compile(text)
    refuse_service(patterns, marks=True)
    events = pa.table({"id": [1, 1], "t": [100, 104], "x": [2.0, 2.0]})
    found = with_ids(patterns.recognise(events).to_arrow())
    batch = marked(Batch(3, found.append_column("stale", pa.nulls(4, pa.bool_()))), Validity(patterns), now_s=107.0)
    stale = {(row["pattern"], row["ts"]): row["stale"] for table in batch.tables() for row in table.to_pylist()}
    assert stale == {("P", 100): True, ("P", 104): False, ("Q", 100): False, ("Q", 104): False}
    dropping = wayeb_py.compile("stream s { key id time t }\npattern P := (x > 1) valid for 5 s else drop\n")
    with pytest.raises(DataError, match="`P` says `valid for … else drop`, and a stream on Spark keeps") as told:
        refuse_service(dropping, marks=True)
    assert "--engine local" in (told.value.hint or "")


def test_a_stream_takes_priorities() -> None:
    refuse_service(wayeb_py.compile("stream s { key id time t }\npattern P := (x > 1) priority high\n"))
