"""Scenes for rules, staged among generated traffic: actors with keys of their own play them, one scene an hour.

Traffic goes on unchanged; the stage adds the messages of actors that follow waypoints, one a minute, and occurrences
of the rules that their scenes fulfil. A scene is recorded once the traffic has gone on long enough for its rule to be
decided, and, where others could spoil it, if none came near meanwhile.

*Not taken*: to let vessels of the traffic itself play them, as they play the patterns of one and of two. A rule needs
hours of several vessels in step, which would leave little of their voyages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I64
from wayeb_py.simulate.event_batches import metres_between
from wayeb_py.simulate.generated_files import OCCURRENCES, Generated
from wayeb_py.simulate.invented_sea import METRES_A_DEGREE

MINUTE_MS = 60_000
FIRST_MINUTES, EVERY_MINUTES = 5, 60
DECIDED_MINUTES = 175  # after which every scene's rule is decided
KEYS_A_SCENE = 10

Place = tuple[float, float]
Waypoint = tuple[float, float, float]  # minute, longitude, latitude


@dataclass(frozen=True, slots=True)
class Actor:
    """An actor that goes from waypoint to waypoint; `columns` say what else it sends, from a minute on."""

    waypoints: tuple[Waypoint, ...]
    columns: tuple[tuple[float, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """What fulfils a rule: its actors, and the numbers of those that the rule names `entity` and `other`.

    `hours` (UTC) are those in which it may begin. `clear` is a place with metres around it: if a vessel or vehicle of
    the traffic is there in the `clear_minutes`, the scene is played but not recorded.
    """

    rule: str
    actors: tuple[Actor, ...]
    entity: int = 0
    other: int | None = None
    place: str | None = None
    hours: frozenset[int] = frozenset(range(24))
    clear: tuple[Place, float] | None = None
    clear_minutes: tuple[float, float] = (0, 0)


@dataclass(frozen=True, slots=True)
class Moves:
    """The messages of an actor: minutes since the scene began, positions, m/s and degrees."""

    minute: F64
    lon: F64
    lat: F64
    speed: F64
    course: F64


@dataclass(frozen=True, slots=True)
class Stage:
    """The scenes of a kind of traffic, which are played in turn; `key` is the column of keys, from `first_key` on."""

    scenes: tuple[Scene, ...]
    schema: pa.Schema
    key: str
    first_key: int
    columns: Callable[[Moves], dict[str, Any]]  # what any actor sends beside its key, time and position


def off(place: Place, east_m: float, north_m: float) -> Place:
    """The place `east_m` and `north_m` away from another."""
    lon, lat = place
    return lon + east_m / (METRES_A_DEGREE * float(np.cos(np.radians(lat)))), lat + north_m / METRES_A_DEGREE


def _moves(actor: Actor) -> Moves:
    minutes, lons, lats = (np.array(column, float) for column in zip(*actor.waypoints, strict=True))
    ticks = np.arange(minutes[0], minutes[-1] + 1)
    lon, lat = np.interp(ticks, minutes, lons), np.interp(ticks, minutes, lats)
    east_m = np.diff(lon, append=lon[-1]) * METRES_A_DEGREE * np.cos(np.radians(lat))
    north_m = np.diff(lat, append=lat[-1]) * METRES_A_DEGREE
    east_m[-1], north_m[-1] = east_m[-2], north_m[-2]  # the last message has the speed of the one before
    return Moves(ticks, lon, lat, np.hypot(east_m, north_m) / 60, np.degrees(np.arctan2(east_m, north_m)) % 360)


def _messages(stage: Stage, actor: Actor, key: int, begin_ms: int) -> pa.Table:
    moves = _moves(actor)
    n = len(moves.minute)
    seconds_ms = 1000 * (key % KEYS_A_SCENE)  # each actor sends at its own second of the minute
    columns: dict[str, Any] = {name: list(values) for name, values in stage.columns(moves).items()}
    for since, told in actor.columns:
        for name, value in told.items():
            own = columns.setdefault(name, [None] * n)
            columns[name] = [value if minute >= since else before
                             for minute, before in zip(moves.minute, own, strict=True)]  # fmt: skip
    columns |= {
        stage.key: [key] * n,
        "ts": (begin_ms + moves.minute * MINUTE_MS + seconds_ms).astype(np.int64),
        "lon": moves.lon,
        "lat": moves.lat,
    }
    arrays = [pa.array(columns[one.name], one.type) if one.name in columns else pa.nulls(n, one.type)
              for one in stage.schema]  # fmt: skip
    return pa.table(arrays, schema=stage.schema)


@dataclass
class _Played:
    """A scene that has begun at a time, under its keys."""

    scene: Scene
    first_key: int
    begin_ms: int
    is_clear: bool = True

    def look(self, ts_ms: I64, lon: F64, lat: F64) -> None:
        """Notes whether traffic is where none should be."""
        if self.scene.clear is None:
            return
        place, metres = self.scene.clear
        first, last = (self.begin_ms + minute * MINUTE_MS for minute in self.scene.clear_minutes)
        now = (ts_ms >= first) & (ts_ms <= last)
        at = np.full(int(now.sum()), place[0]), np.full(int(now.sum()), place[1])
        self.is_clear &= not bool((metres_between(lon[now], lat[now], *at) < metres).any())

    def occurrence(self) -> dict[str, Any]:
        scene = self.scene
        return {
            "pattern": scene.rule,
            "place": scene.place,
            "entity": self.first_key + scene.entity,
            "other": None if scene.other is None else self.first_key + scene.other,
            "start_ts": self.begin_ms,
            "end_ts": self.begin_ms + DECIDED_MINUTES * MINUTE_MS,
        }


@dataclass
class _Director:
    stage: Stage
    next_ms: int
    n_played: int = 0
    turn: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    played: list[_Played] = field(default_factory=list)

    def begin(self, until_ms: int) -> None:
        """Begins the scenes that are due."""
        while self.next_ms <= until_ms:
            scenes = self.stage.scenes
            hour = self.next_ms // (60 * MINUTE_MS) % 24
            order = [scenes[(self.turn + nth) % len(scenes)] for nth in range(len(scenes))]
            scene = next((one for one in order if hour in one.hours), None)
            if scene is not None:
                key = self.stage.first_key + KEYS_A_SCENE * self.n_played
                for number, actor in enumerate(scene.actors):
                    self.waiting.append(_messages(self.stage, actor, key + number, self.next_ms))
                self.played.append(_Played(scene, key, self.next_ms))
                self.n_played += 1
                self.turn = scenes.index(scene) + 1
            self.next_ms += EVERY_MINUTES * MINUTE_MS

    def messages(self, until_ms: int) -> list[pa.Table]:
        """The messages up to a time; later ones wait."""
        given, later = [], []
        for table in self.waiting:
            n = int(np.searchsorted(_ms(table), until_ms, side="right"))
            given.append(table.slice(0, n))
            later += [table.slice(n)] if n < len(table) else []
        self.waiting = later
        return given

    def decided(self, until_ms: int) -> list[dict[str, Any]]:
        """The occurrences that are decided by a time."""
        over = [one for one in self.played if one.begin_ms + DECIDED_MINUTES * MINUTE_MS <= until_ms]
        self.played = [one for one in self.played if one not in over]
        return [one.occurrence() for one in over if one.is_clear]


def _ms(table: pa.Table | pa.RecordBatch) -> I64:
    times: I64 = table.column("ts").cast(pa.int64()).to_numpy()
    return times


def with_scenes(pieces: Iterator[Generated], stage: Stage) -> Iterator[Generated]:
    """Traffic with the scenes of a stage: a few more messages than requested, in order of time."""
    director: _Director | None = None
    for piece in pieces:
        ts_ms = _ms(piece.events)
        if director is None:
            director = _Director(stage, int(ts_ms[0]) + FIRST_MINUTES * MINUTE_MS)
        last_ms = int(ts_ms[-1])
        director.begin(last_ms)
        lon, lat = (piece.events.column(name).to_numpy(zero_copy_only=False) for name in ("lon", "lat"))
        for played in director.played:
            played.look(ts_ms, lon, lat)
        together = pa.concat_tables([pa.Table.from_batches([piece.events]), *director.messages(last_ms)])
        order = pa.array(np.argsort(_ms(together), kind="stable"))
        events = together.take(order).combine_chunks().to_batches()[0]
        noted = pa.RecordBatch.from_pylist(director.decided(last_ms), OCCURRENCES)
        occurrences = pa.Table.from_batches([piece.occurrences, noted]).combine_chunks().to_batches()
        yield Generated(events, occurrences[0] if occurrences else piece.occurrences, piece.lies)
