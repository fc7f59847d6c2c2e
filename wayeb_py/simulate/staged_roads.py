"""Scenes for the rules of `patterns/fleet`, at a roadside far from depots and at a yard of the invented country."""

from __future__ import annotations

from typing import Any

from wayeb_py.simulate.fleet import SCHEMA
from wayeb_py.simulate.staged_scenes import Actor, Moves, Place, Scene, Stage, off

ROADSIDE: Place = (7.0, 47.4)
YARD: Place = (6.15, 47.2)
YARD_NAME = "Altenfels Yard"
NO_ROUTE = "S"  # a route that no other vehicle has, and that the plan gives to none


def _loses_fuel(minute: float, east_m: float) -> Actor:
    place = off(ROADSIDE, east_m, 0)
    return Actor(((minute - 5, *place), (minute + 5, *place)), ((minute, {"fuel": 0.5}),))


def _comes(minute: float) -> Actor:
    return Actor(((minute - 5, *off(YARD, 3000, 0)), (minute, *YARD), (minute + 10, *YARD)))


def _columns(moves: Moves) -> dict[str, Any]:
    n = len(moves.minute)
    return {
        "speed": moves.speed * 3.6,
        "heading": moves.course,
        "ignition": [True] * n,
        "status": ["moving" if speed > 1 else "parked" for speed in moves.speed],
        "fuel": [0.8] * n,
    }


ROAD_STAGE = Stage(
    (
        Scene(
            "ReplacementMissing",
            (
                Actor(
                    ((0, *off(ROADSIDE, -4000, 0)), (5, *ROADSIDE), (60, *ROADSIDE)), ((0, {"route": NO_ROUTE}),),
                ),
            ),
        ),
        Scene("TheftRing", (_loses_fuel(10, 0), _loses_fuel(100, 2000), _loses_fuel(40, -2000))),
        Scene(
            "DepotCongestion",
            (_comes(10), _comes(14), _comes(20)),
            place=YARD_NAME,
            clear=(YARD, 6000),  # a vehicle that leaves, or comes between, makes another queue
            clear_minutes=(-10, 35),
        ),
        Scene(
            "UnassignedTrip",
            (
                Actor(((5, *YARD), (10, *YARD), (15, *off(YARD, 5000, 0))), ((0, {"route": NO_ROUTE}),)),
            ),
        ),
    ),
    SCHEMA,
    "vehicle_id",
    980_000_000,
    _columns,
)  # fmt: skip
