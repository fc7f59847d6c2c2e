"""`not near(…)` is true of an event without a position: the checker says so unless something rules such events out."""

from __future__ import annotations

import pytest

import wayeb_py

HEAD = """
stream vessels {
    key      mmsi
    time     ts
    position lon, lat
    attr     speed number in kn
}
points port from "ports.csv"
areas  reef from "reefs.geojson"
let located = not missing(lon) and not missing(lat)
let at_port = near(port, 1 km)
"""

GUARDED = [
    "not missing(lon) and not near(port, 1 km)",
    "located and not at_port",
    "speed > 1 and (not missing(lat) and speed < 9) and not at_port",
    "inside(reef) and not at_port",
    "(inside(reef) or near(port, 5 km)) and not at_port",
    "not (missing(lon) or at_port)",
    "not (not located or at_port)",
]
UNGUARDED = [
    "not at_port",
    "speed > 1 and not at_port",
    "missing(lon) and not at_port",
    "not missing(speed) and not at_port",
    "(located or speed > 1) and not at_port",
    "(inside(reef) or speed > 1) and not at_port",
    "not inside(reef) and not at_port",
    "not (located and at_port)",
]


def warnings_of(predicate: str) -> list[str]:
    return [warning.label for warning in wayeb_py.compile(f"{HEAD}pattern P := ({predicate}){{2,}}\n").warnings]


@pytest.mark.parametrize("predicate", GUARDED)
def test_a_guarded_lookup_is_not_warned_of(predicate: str) -> None:
    assert warnings_of(predicate) == []


@pytest.mark.parametrize("predicate", UNGUARDED)
def test_an_unguarded_lookup_is_warned_of(predicate: str) -> None:
    assert set(warnings_of(predicate)) == {"negated without a guard"}
