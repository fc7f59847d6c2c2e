"""Tracks, episodes and places become what the page draws: numbers packed for the browser, thinned where they are many.

Thinning keeps what a reader looks for: the first and the last position of every entity and of every episode stay,
those inside episodes are the last to go, and the sharpest corners and every n-th of the rest are kept. The page says
what was left out. Columns go as base64 of little-endian arrays, which a browser turns into typed arrays at once; JSON
numbers would be larger and slower to parse.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I64
from wayeb_py.view.read_detections import ShownEpisode
from wayeb_py.view.tracks import ShownAttribute, Tracks
from wayeb_py.view.world import PER_DEGREE as PER_DEGREE_OF_OUTLINE
from wayeb_py.view.world import Outline

MOST_POINTS = 50_000
MOST_EPISODES = 2_000
PER_DEGREE = 10_000_000  # positions go as integers: a centimetre, in four bytes
NO_POSITION = -(2**31)

Json = dict[str, Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ShownPlace:
    """A named piece of background knowledge: its lines of (lon, lat) are closed for an area."""

    knowledge: str
    shape: str  # points, lines or areas
    name: str | None
    lines: tuple[tuple[tuple[float, float], ...], ...]


def build_scene(
    title: str,
    tracks: Tracks,
    episodes: Sequence[ShownEpisode],
    places: Sequence[ShownPlace] = (),
    pattern_texts: Mapping[str, str] | None = None,
    outline: Outline | None = None,
    most_points: int = MOST_POINTS,
    most_episodes: int = MOST_EPISODES,
    forecast: Sequence[str] = (),
) -> tuple[Json, list[ShownEpisode]]:
    """What the page draws, and the episodes that are on it, in its order; patterns that are `forecast` are on it, found
    or not."""
    number_of = {name: number for number, name in enumerate(tracks.entities)}
    drawn = [episode for episode in episodes if all(name in number_of for name in episode.who)]
    notes = []
    if len(drawn) < len(episodes):
        n_lost = len(episodes) - len(drawn)
        notes.append(f"{n_lost:,} episodes belong to entities that are not in the data and are left out.")
    n_episodes = len(drawn)
    drawn = thin_episodes(drawn, most_episodes)
    if len(drawn) < n_episodes:
        notes.append(f"{len(drawn):,} of {n_episodes:,} episodes are shown: of every pattern every n-th.")
    rows = [_rows(tracks, number_of[episode.entity], episode) for episode in drawn]
    of_others = [None if e.other is None else _rows(tracks, number_of[e.other], e) for e in drawn]
    keep = thin_points(tracks, [*rows, *(others for others in of_others if others is not None)], most_points)
    n_points = len(tracks.time_s)
    kept = int(keep.sum())
    if kept < n_points:
        notes.append(f"{kept:,} of {n_points:,} track points are shown: lines are coarser than the data.")
    new_row = np.concatenate([[0], np.cumsum(keep)])
    patterns = Counter(episode.pattern for episode in drawn)
    names = sorted({*patterns, *forecast})
    place_names = sorted({episode.place for episode in drawn if episode.place is not None})
    texts = pattern_texts or {}
    scene = {
        "title": title,
        "notes": notes,
        "patterns": [{"name": name, "text": texts.get(name)} for name in names],
        "entities": tracks.entities,
        "labels": [tracks.labels.get(name) for name in tracks.entities],
        "first": _packed(new_row[tracks.first], np.int32),
        "time": _packed(tracks.time_s[keep], np.float64),
        "lon": _packed(_degrees(tracks.lon[keep]), np.int32),
        "lat": _packed(_degrees(tracks.lat[keep]), np.int32),
        "attributes": [_attribute(shown, keep) for shown in tracks.shown],
        "placeNames": place_names,
        "episodes": {
            "pattern": [names.index(episode.pattern) for episode in drawn],
            "entity": [number_of[episode.entity] for episode in drawn],
            "place": [-1 if e.place is None else place_names.index(e.place) for e in drawn],
            "start": [episode.start_s for episode in drawn],
            "end": [episode.end_s for episode in drawn],
            "detections": [episode.n_detections for episode in drawn],
            "firstRow": [int(new_row[begin]) for begin, _ in rows],
            "endRow": [int(new_row[end]) for _, end in rows],
            "events": [end - begin for begin, end in rows],
            **_of_pairs(drawn, of_others, number_of, new_row),
            **({"decided": [e.decided_s for e in drawn]} if any(e.decided_s is not None for e in drawn) else {}),
        },
        "places": [_place(place) for place in places],
        "world": None if outline is None else _world(outline, has_lines=any(p.shape == "lines" for p in places)),
        "why": {},
    }
    return scene, drawn


def _rows(tracks: Tracks, entity: int, episode: ShownEpisode) -> tuple[int, int]:
    """The rows of an episode on the track of its entity, or of one entity of a pair."""
    rows = tracks.rows if episode.other is None else tracks.rows_of_pair
    return rows(entity, episode.start_s, episode.end_s)


def _of_pairs(
    drawn: Sequence[ShownEpisode], rows: Sequence[tuple[int, int] | None], number_of: Mapping[str, int], new_row: I64
) -> Json:
    """The columns of each pair's second entity, -1 and no rows where an episode has one entity; none without pairs."""
    if all(episode.other is None for episode in drawn):
        return {}
    spans = [(0, 0) if span is None else span for span in rows]
    return {
        "other": [-1 if episode.other is None else number_of[episode.other] for episode in drawn],
        "otherFirstRow": [int(new_row[begin]) for begin, _ in spans],
        "otherEndRow": [int(new_row[end]) for _, end in spans],
        "otherEvents": [end - begin for begin, end in spans],
    }


def thin_episodes(episodes: list[ShownEpisode], most: int) -> list[ShownEpisode]:
    """At most `most` episodes, the same share of every pattern."""
    if len(episodes) <= most:
        return episodes
    seen: Counter[str] = Counter()
    share = most / len(episodes)
    chosen = []
    for episode in episodes:
        seen[episode.pattern] += 1
        n = seen[episode.pattern]
        if int(n * share) > int((n - 1) * share):
            chosen.append(episode)
    return chosen


def thin_points(tracks: Tracks, inside: Sequence[tuple[int, int]], most: int) -> Mask:
    """Which rows to keep so that at most `most` stay, unless the ends of tracks and episodes alone are more."""
    n = len(tracks.time_s)
    if n <= most:
        return np.ones(n, dtype=bool)
    ends = np.zeros(n, dtype=bool)
    full = tracks.first[1:] > tracks.first[:-1]
    ends[tracks.first[:-1][full]] = True
    ends[tracks.first[1:][full] - 1] = True
    within = np.zeros(n + 1, dtype=np.int64)
    for begin, end in inside:
        if end > begin:
            ends[[begin, end - 1]] = True
            within[begin] += 1
            within[end] -= 1
    in_episode = (np.cumsum(within)[:-1] > 0) & ~ends
    others = ~in_episode & ~ends
    room = max(0, most - int(ends.sum()))
    for_episodes = min(int(in_episode.sum()), room * 3 // 4)
    corners = _sharpest(tracks, others, (room - for_episodes) // 2)
    rest = _every_nth(others & ~corners, room - for_episodes - int(corners.sum()))
    return ends | _every_nth(in_episode, for_episodes) | corners | rest


def _sharpest(tracks: Tracks, mask: Mask, most: int) -> Mask:
    """The rows that a reader would miss most: those far from the line between their neighbours."""
    rows = np.flatnonzero(mask)
    chosen = np.zeros(len(mask), dtype=bool)
    inner = rows[(rows > 0) & (rows < len(mask) - 1)]
    lon, lat = tracks.lon, tracks.lat
    before, after = inner - 1, inner + 1
    area = np.abs(
        (lon[before] - lon[inner]) * (lat[after] - lat[inner]) - (lon[after] - lon[inner]) * (lat[before] - lat[inner])
    )
    order = np.argsort(-np.nan_to_num(area), kind="stable")
    chosen[inner[order[:most]]] = True
    return chosen


def _every_nth(mask: Mask, most: int) -> Mask:
    rows = np.flatnonzero(mask)
    if len(rows) <= most:
        return mask
    kept = np.zeros(len(mask), dtype=bool)
    kept[rows[np.linspace(0, len(rows), most, endpoint=False).astype(np.int64)]] = True
    return kept


def _packed(values: npt.NDArray[Any], dtype: Any) -> str:
    little = np.ascontiguousarray(values).astype(np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode("ascii")


def _degrees(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    scaled = np.where(np.isnan(values), 0.0, np.round(values * PER_DEGREE))
    return np.where(np.isnan(values), NO_POSITION, scaled).astype(np.int64)


def _attribute(shown: ShownAttribute, keep: Mask) -> Json:
    if shown.words is None:
        return {"name": shown.name, "unit": shown.unit, "numbers": _packed(shown.values[keep], np.float32)}
    used, codes = np.unique(shown.values[keep], return_inverse=True)
    words = [None if code < 0 else shown.words[code] for code in used.tolist()]
    return {"name": shown.name, "unit": shown.unit, "codes": _packed(codes, np.int32), "words": words}


def _world(outline: Outline, has_lines: bool) -> Json:
    """The outline of the land; it is not shown at first where the reader has lines of their own, such as a coast."""

    def packed(rings: Sequence[npt.NDArray[np.int32]]) -> Json:
        points = np.concatenate(rings) if rings else np.zeros((0, 2), dtype=np.int32)
        ends = np.cumsum([len(ring) for ring in rings])
        return {"ends": _packed(ends, np.int32), "points": _packed(points, np.int32)}

    return {
        "perDegree": PER_DEGREE_OF_OUTLINE,
        "coarse": packed(outline.coarse),
        "fine": packed(outline.fine),
        "box": outline.box,
        "shown": not has_lines,
    }


def _place(place: ShownPlace) -> Json:
    return {
        "knowledge": place.knowledge,
        "shape": place.shape,
        "name": place.name,
        "lines": [[round(degree, 6) for point in line for degree in point] for line in place.lines],
    }
