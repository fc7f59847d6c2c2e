"""Selects the part of the detections and events that a map shows: a span of time, some entities, some patterns.

Where reasons are shown, all events are read nevertheless: the match of an episode may begin before the span, and `prev`
and `elapsed` look back beyond that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from wayeb_py.errors import DataError, UsageError
from wayeb_py.view.read_detections import ShownEpisode
from wayeb_py.view.tracks import Tracks


@dataclass(frozen=True, slots=True)
class ShownPart:
    """The wanted part; None is everything."""

    since_s: Fraction | None = None
    until_s: Fraction | None = None
    entities: tuple[str, ...] | None = None
    patterns: tuple[str, ...] | None = None

    def of_episodes(self, episodes: Sequence[ShownEpisode], known_patterns: Collection[str]) -> list[ShownEpisode]:
        """The episodes of the chosen patterns and entities that lie in the span, at least in part."""
        there = sorted({*known_patterns, *(episode.pattern for episode in episodes)})
        for name in self.patterns or ():
            if name not in there:
                raise UsageError(f"no pattern is called `{name}`; there are {', '.join(there) or 'none'}")
        return [
            episode
            for episode in episodes
            if (self.patterns is None or episode.pattern in self.patterns)
            and (self.entities is None or not set(episode.who).isdisjoint(self.entities))
            and (self.since_s is None or episode.until_s >= self.since_s)
            and (self.until_s is None or episode.start_s < self.until_s)
        ]

    def with_others(self, episodes: Sequence[ShownEpisode]) -> set[str] | None:
        """The chosen entities, and those that are the other of a pair with one of them; None if all are chosen."""
        if self.entities is None:
            return None
        return {*self.entities, *(name for episode in episodes for name in episode.who)}

    def of_tracks(self, tracks: Tracks) -> Tracks:
        """The tracks of the events, cut to the span."""
        if self == EVERYTHING:
            return tracks
        for name in self.entities or ():
            if name not in tracks.entities:
                raise DataError(f"the events have no entity `{name}`")
        keep = np.ones(len(tracks.time_s), dtype=bool)
        if self.since_s is not None:
            keep &= tracks.time_s >= float(self.since_s)
        if self.until_s is not None:
            keep &= tracks.time_s < float(self.until_s)
        entity = np.repeat(np.arange(len(tracks.entities)), np.diff(tracks.first))
        left = np.bincount(entity[keep], minlength=len(tracks.entities))
        names = [name for name, n in zip(tracks.entities, left.tolist(), strict=True) if n]
        shown = tuple(replace(attribute, values=attribute.values[keep]) for attribute in tracks.shown)
        first = np.concatenate([[0], np.cumsum(left[left > 0])])
        labels = {name: label for name, label in tracks.labels.items() if name in names}
        return Tracks(names, first, tracks.time_s[keep], tracks.lon[keep], tracks.lat[keep], shown, labels)


EVERYTHING = ShownPart()
