"""Patterns that need a clock over all entities are refused where a job or a stream on Spark begins."""

from __future__ import annotations

import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.errors import DataError
from wayeb_py.parallel.wire.found_schema import schema_of_found

EVENTS = pa.schema([("id", pa.int32()), ("t", pa.timestamp("ms")), ("x", pa.float32())])


def test_the_columns_are_known_before_anything_is_fed() -> None:
    patterns = wayeb_py.compile("stream s { key id time t }\npattern P := (x > 1) emit x\n")
    for episodes in (False, True):
        found = patterns.recognise(EVENTS.empty_table())
        expected = found.episodes().schema if episodes else found.to_arrow().schema
        assert schema_of_found(patterns, EVENTS, episodes) == expected


def test_a_silence_is_refused() -> None:
    silent = wayeb_py.compile("stream s { key id time t }\npattern Gone := (x > 1) ; silence 1 h\n")
    with pytest.raises(DataError, match="pattern `Gone` goes by a clock over all entities"):
        schema_of_found(silent, EVENTS, False)


def test_a_rule_is_refused() -> None:
    text = "stream s { key id time t lateness 1 h }\nrule R := a: s, b: s where a.x = b.x within 1 h\n"
    rule = wayeb_py.compile(text)
    with pytest.raises(DataError, match="rule `R` goes by a clock over all entities"):
        schema_of_found(rule, EVENTS, False)
