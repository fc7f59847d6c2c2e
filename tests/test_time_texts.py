"""Durations and instants as they are written on the command line."""

from __future__ import annotations

from fractions import Fraction

import pytest

from wayeb_py.time_texts import read_duration_s, read_instant_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10min", 600), ("1.5 h", 5400), ("1 d", 86400), ("250ms", Fraction(1, 4))],
)
def test_durations(text: str, seconds: int | Fraction) -> None:
    assert read_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "unit", "seconds"),
    [
        ("1970-01-01", None, 0),
        ("1970-01-01T01:00:00", None, 3600),
        ("1970-01-01T01:00:00+01:00", None, 0),
        ("1970-01-01T00:00:00.000000001Z", None, Fraction(1, 10**9)),
        ("1969-12-31T23:59:59.5Z", None, Fraction(-1, 2)),
        ("1500", "ms", Fraction(3, 2)),
        ("-7", "s", -7),
    ],
)
def test_instants(text: str, unit: str | None, seconds: int | Fraction) -> None:
    assert read_instant_s(text, unit) == seconds
