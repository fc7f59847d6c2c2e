"""Scenes for the rules of `patterns/maritime`, off the coast of the invented sea, far from lanes, ports and shores."""

from __future__ import annotations

from typing import Any

from wayeb_py.simulate.maritime import SCHEMA
from wayeb_py.simulate.sea.scenes import KN_IN_M_S
from wayeb_py.simulate.staged_scenes import Actor, Moves, Place, Scene, Stage, off

SITE: Place = (-4.49, 48.70)
NEXT_SITE = off(SITE, 10_000, 0)
BESIDE, BESIDE_NEXT = off(SITE, 100, 0), off(NEXT_SITE, 100, 0)
FAR: Place = (-4.30, 48.95)
TREIZH: Place = (-4.694, 48.357)
BEACH: tuple[Place, Place] = (-4.9, 48.40), (-4.9, 48.3697)  # a point off the beach, and one at it
NIGHT = frozenset((19, 20, 21, 22, 23, 0))  # hours in which to set out for a landing by night, 2.5 h later

STAYS = Actor(((0, *BESIDE), (30, *BESIDE), (120, *FAR)))
CALLS = Actor(((0, *SITE), (30, *SITE), (120, *TREIZH), (140, *TREIZH)))
LANDS = Actor(((0, *SITE), (30, *SITE), (130, *BEACH[0]), (148, *BEACH[1])))


def _sweeps(east_m: float) -> Actor:
    """Sails north for 20 minutes at 10 knots, and back, in a lane `east_m` metres to the east."""
    begin, end = off(SITE, east_m, 0), off(SITE, east_m, 6173)
    return Actor(((0, *begin), (20, *end), (24, *end), (44, *begin)))


def _falls_silent(minute: float, east_m: float) -> Actor:
    return Actor(((0, *off(SITE, east_m, 0)), (minute, *off(SITE, east_m, 150 * minute))))


def _columns(moves: Moves) -> dict[str, Any]:
    n = len(moves.minute)
    return {
        "speed": moves.speed / KN_IN_M_S,
        "course": moves.course,
        "heading": moves.course,
        "type": ["cargo"] * n,
        "status": ["under way"] * n,
    }


SEA_STAGE = Stage(
    (
        Scene("SmugglingRun", (LANDS, STAYS), hours=NIGHT),
        Scene(
            "Relay",
            (
                Actor(((0, *BESIDE), (21, *BESIDE), (111, *FAR))),
                Actor(((0, *SITE), (20, *SITE), (60, *NEXT_SITE), (80, *NEXT_SITE))),
                Actor(((30, *BESIDE_NEXT), (81, *BESIDE_NEXT), (141, *FAR))),
            ),
            other=2,
        ),
        Scene("SearchPattern", (_sweeps(0), _sweeps(1000), _sweeps(2000)), other=2),
        Scene("GhostFleet", (_falls_silent(30, 0), _falls_silent(40, 1000), _falls_silent(20, 2000))),
        Scene("Transshipment", (CALLS, STAYS), other=1, place="Treizh"),
    ),
    SCHEMA,
    "mmsi",
    980_000_000,
    _columns,
)
