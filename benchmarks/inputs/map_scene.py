"""Made-up tracks and episodes of any number, for the map page."""

from __future__ import annotations

import numpy as np

from wayeb_py.view.read_detections import Episode
from wayeb_py.view.tracks import Shown, Tracks

SEED = 7


def made_tracks(n_entities: int, n_each: int) -> Tracks:
    """Entities that wander about, a message a minute."""
    rng = np.random.default_rng(SEED)
    n = n_entities * n_each
    turn = np.cumsum(rng.normal(0, 0.3, (n_entities, n_each)), axis=1)
    lon = rng.uniform(-5, -4, (n_entities, 1)) + np.cumsum(np.cos(turn), axis=1) * 0.002
    lat = rng.uniform(48, 49, (n_entities, 1)) + np.cumsum(np.sin(turn), axis=1) * 0.002
    time_s = np.tile(1_450_000_000.0 + 60.0 * np.arange(n_each), n_entities)
    shown = (Shown("speed", "kn", rng.uniform(0, 20, n)), Shown("status", None, rng.integers(0, 2, n), ["idle", "off"]))
    first = np.arange(n_entities + 1) * n_each
    names = [f"vessel {number:03}" for number in range(n_entities)]
    return Tracks(names, first, time_s, lon.reshape(-1), lat.reshape(-1), shown)


def made_episodes(tracks: Tracks, n: int, length: int) -> list[Episode]:
    n_each = int(tracks.first[1])
    episodes = []
    for number in range(n):
        entity = number % len(tracks.entities)
        begin = int(tracks.first[entity]) + (number * 37) % (n_each - length)
        start_s, end_s = float(tracks.time_s[begin]), float(tracks.time_s[begin + length - 1])
        episodes.append(Episode(f"Pattern{number % 8}", None, tracks.entities[entity], start_s, end_s, 3, end_s))
    return episodes
