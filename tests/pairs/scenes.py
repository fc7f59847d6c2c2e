"""Random tracks that meet, cross, stop, vanish and leap, anywhere on the earth, and the same as arrays in order."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.oracle import Column
from tests.oracle_several import Pairing, Sent, Stream, Timed, move_on, put_in_order

CENTRES = ((10.0, 50.0), (0.0, 0.0), (180.0, 12.0), (-179.9999, -60.0), (30.0, 89.9), (0.0, 90.0), (77.0, -90.0))
REACHES_M = (50.0, 1_000.0, 200_000.0)
COLUMNS = {
    "id": Column("integer"),
    "t": Column("integer"),
    **{name: Column("float") for name in ("lon", "lat", "speed", "course", "x")},
}
STREAM = Stream("id", "t", motion=("speed", "course"), columns=COLUMNS)


@dataclass(frozen=True)
class Scene:
    """What was sent, and the pairs to find."""

    sent: tuple[Sent, ...]
    streams: tuple[Stream, ...]
    pairing: Pairing
    seed: int


def make_scene(seed: int, n_events: int, two_streams: bool, projected: bool, ordered: bool) -> Scene:
    """Entities that go about a centre no larger than some reaches, each by its own plan; times are whole seconds."""
    dice = random.Random(seed)
    reach_m = dice.choice(REACHES_M)
    centre = dice.choice(CENTRES)
    n_entities = dice.randint(2, 6)
    step_s = dice.choice((0, 1, 10, 30))
    fresh_s = Fraction(dice.choice((0, 5, 60, 600)))
    tracks: list[dict[str, Any]] = []
    for _ in range(n_entities):
        lon, lat = move_on(*centre, dice.uniform(0, 360), dice.uniform(0, 1.2 * reach_m))
        pace = dice.choice((0.0, 0.0, reach_m / 60, reach_m / 600, reach_m * 20))
        tracks.append({"lon": lon, "lat": lat, "speed": pace, "course": dice.uniform(0, 360), "t": 0})
    sent = []
    now = 0
    for _ in range(n_events):
        now += dice.choice((0, 0, 1, step_s, step_s, step_s * 5, 700 if dice.random() < 0.05 else 1))
        key = dice.randrange(n_entities)
        track = tracks[key]
        track["lon"], track["lat"] = move_on(
            track["lon"], track["lat"], track["course"], track["speed"] * (now - track["t"])
        )
        track["t"] = now
        match dice.randrange(30):
            case 0:
                track["speed"] = 0.0
            case 1:
                track["course"] = dice.uniform(0, 360)
            case 2:  # it leaps
                track["lon"], track["lat"] = dice.uniform(-180, 180), dice.uniform(-90, 90)
            case 3:  # and comes back
                track["lon"], track["lat"] = centre
            case 4:  # beside another
                other = dice.choice(tracks)
                track["lon"], track["lat"] = other["lon"], other["lat"]
        event: dict[str, Any] = {**track, "id": key, "x": float(dice.randrange(4))}
        if dice.random() < 0.05:
            event[dice.choice(("lon", "lat", "speed", "course"))] = dice.choice((None, math.nan, 500.0))
        if dice.random() < 0.1:
            event["lon"] = None if event["lon"] is None else event["lon"] + dice.choice((-360.0, 360.0))
        if event["lon"] is not None and not -360 <= event["lon"] <= 360:
            event["lon"] = math.nan
        sent.append(Sent(event, stream=key % 2 if two_streams else 0))
    streams = (STREAM, STREAM) if two_streams else (STREAM,)
    pairing = Pairing(reach_m, fresh_s, 0, 1 if two_streams else 0, projected, ordered and not two_streams)
    return Scene(tuple(sent), streams, pairing, seed)


def scenes(max_events: int = 60, **fixed: bool) -> st.SearchStrategy[Scene]:
    chosen = {name: st.just(fixed[name]) if name in fixed else st.booleans() for name in ("two_streams", "projected")}
    return st.builds(
        make_scene, st.integers(0, 2**32), st.integers(2, max_events), chosen["two_streams"], chosen["projected"],
        st.just(fixed.get("ordered", False)),
    )  # fmt: skip


@dataclass(frozen=True)
class Arrays:
    """Events in order as the kernels take them."""

    entity: Any
    ts: Any
    lon: Any
    lat: Any
    speed: Any
    course: Any
    rank: Any
    side: Any
    who: tuple[Any, ...]  # [entity] -> (stream, key)
    events: tuple[Timed, ...]


def arrays_of(scene: Scene) -> Arrays:
    events = put_in_order(scene.sent, scene.streams).events
    who: list[Any] = list(dict.fromkeys(timed.who for timed in events))
    number = {one: n for n, one in enumerate(who)}
    by_key = sorted(range(len(who)), key=lambda n: who[n][1])
    rank = np.empty(len(who), dtype=np.int64)
    rank[by_key] = np.arange(len(who))

    def floats(name: str) -> Any:
        cells: Sequence[Any] = [timed.event[name] for timed in events]
        return np.array([math.nan if cell is None else cell for cell in cells], dtype=np.float64)

    return Arrays(
        np.array([number[timed.who] for timed in events], dtype=np.int32),
        np.array([int(timed.time_s) for timed in events], dtype=np.int64),
        floats("lon"),
        floats("lat"),
        floats("speed"),
        floats("course"),
        rank,
        np.array([stream for stream, _ in who], dtype=np.uint8),
        tuple(who),
        tuple(events),
    )
