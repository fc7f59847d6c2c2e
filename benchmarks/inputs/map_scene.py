"""Made-up tracks and episodes of any number, for the map page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wayeb_py.view.read_detections import ShownEpisode
from wayeb_py.view.tracks import ShownAttribute, Tracks

SEED = 7


def made_tracks(n_entities: int, n_each: int) -> Tracks:
    """Entities that wander about, a message a minute."""
    rng = np.random.default_rng(SEED)
    n = n_entities * n_each
    turn = np.cumsum(rng.normal(0, 0.3, (n_entities, n_each)), axis=1)
    lon = rng.uniform(-5, -4, (n_entities, 1)) + np.cumsum(np.cos(turn), axis=1) * 0.002
    lat = rng.uniform(48, 49, (n_entities, 1)) + np.cumsum(np.sin(turn), axis=1) * 0.002
    time_s = np.tile(1_450_000_000.0 + 60.0 * np.arange(n_each), n_entities)
    shown = (
        ShownAttribute("speed", "kn", rng.uniform(0, 20, n)),
        ShownAttribute("status", None, rng.integers(0, 2, n), ["idle", "off"]),
    )
    first = np.arange(n_entities + 1) * n_each
    names = [f"vessel {number:03}" for number in range(n_entities)]
    return Tracks(names, first, time_s, lon.reshape(-1), lat.reshape(-1), shown)


def made_episodes(tracks: Tracks, n: int, length: int) -> list[ShownEpisode]:
    n_each = int(tracks.first[1])
    episodes = []
    for number in range(n):
        entity = number % len(tracks.entities)
        begin = int(tracks.first[entity]) + (number * 37) % (n_each - length)
        start_s, end_s = float(tracks.time_s[begin]), float(tracks.time_s[begin + length - 1])
        episodes.append(ShownEpisode(f"Pattern{number % 8}", None, tracks.entities[entity], start_s, end_s, 3, end_s))
    return episodes


def made_encounters(tracks: Tracks, n: int, length: int) -> list[ShownEpisode]:
    """Episodes as in a busy harbour: most are of two entities that lie beside each other, others end in a silence."""
    episodes = []
    for number, episode in enumerate(made_episodes(tracks, n, length)):
        if number % 10 == 0:
            episodes.append(replace(episode, pattern="Silent", decided_s=episode.end_s + 3600.0))
        else:
            other = (number + 1 + number // len(tracks.entities)) % len(tracks.entities)
            episodes.append(replace(episode, other=tracks.entities[other]))
    return episodes
