"""Patterns over pairs that end in a silence: a match after which a, b, or both send nothing for some time.

    matches of R at a pair's events ──▶ wait for t + D ──▶ detected, or dropped where an entity that should be silent
    sends

A match is at an event of the pair at time t; among several events of the two at one time, only the last can be followed
by a silence. Whatever an entity sends breaks its silence, with a position or without. At the end of the input, the
silences are detected that end before the last event of every stream concerned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I32, I64
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.pairs.rows import FoundRows, PairSchema
from wayeb_py.engine.waiting_matches import Waiting
from wayeb_py.kernels.ticks import FOREVER
from wayeb_py.pairs.events import Events


@dataclass(frozen=True, slots=True)
class _Silent:
    """A pattern that ends in a silence: its number in the file, the silent entity, and its waiting matches."""

    number: int
    roles: tuple[m.Role, ...]
    streams: tuple[str, ...]
    waiting: Waiting


class PairSilences:
    """The matches of all patterns over pairs that end in a silence; times are in ticks."""

    def __init__(self, patterns: CompiledPatterns, schema: PairSchema, ticks_per_s: int) -> None:
        self._schema, self._ticks_per_s = schema, ticks_per_s
        self._silent: dict[int, _Silent] = {}
        self._new: dict[int, list[tuple[pa.Table, I64, I64, I32]]] = {}  # by pattern, until they wait
        for number, pattern in enumerate(patterns.meaning.patterns):
            if pattern.pair is None or pattern.silence_s is None:
                continue
            roles: tuple[m.Role, ...] = ("a", "b") if pattern.silence_of is None else (pattern.silence_of,)
            streams = tuple(pattern.pair.streams[0 if role == "a" else 1] for role in roles)
            waiting = Waiting(floor(pattern.silence_s * ticks_per_s), len(roles))
            self._silent[number] = _Silent(number, roles, streams, waiting)

    def __bool__(self) -> bool:
        return bool(self._silent)

    def part(self, found: Sequence[FoundRows]) -> tuple[list[FoundRows], list[FoundRows]]:
        """What is detected at once, and what waits for a silence."""
        at_once: list[FoundRows] = []
        later: list[FoundRows] = []
        for rows in found:
            is_silent = np.isin(rows.found.pattern, list(self._silent))
            for kept, chosen in ((at_once, ~is_silent), (later, is_silent)):
                if chosen.any():
                    kept.append(_chosen(rows, np.flatnonzero(chosen)))
        return at_once, later

    def hear(self, entity: I32, ts: I64, n_entities: int) -> Sent:
        """Takes all sent events, in the order of each entity's time, and notes in the waiting matches whose silence
        they break."""
        sent = Sent(entity, ts)
        firsts = sent.firsts()
        for silent in self._silent.values():
            silent.waiting.hear(entity[firsts], ts[firsts], n_entities)
        return sent

    def wait(self, found: Sequence[FoundRows], events: Events, sent: Sent, rank: I64) -> None:
        """Lets matches at a pairing's events wait, unless a sent event has followed them too soon."""
        of_pair = Sent(events.entity, events.ts)
        for rows in found:
            for number in np.unique(rows.found.pattern).tolist():
                silent, matches = self._silent[number], rows.found
                own = np.flatnonzero(matches.pattern == number)
                last = np.maximum(
                    of_pair.last_until(matches.a[own], matches.ts[own]),
                    of_pair.last_until(matches.b[own], matches.ts[own]),
                )
                own = own[last <= matches.row[own]]
                own = own[np.lexsort((rank[matches.b[own]], rank[matches.a[own]], rows.place[own]))]
                entity = np.column_stack([matches.a[own] if role == "a" else matches.b[own] for role in silent.roles])
                ts, silence = matches.ts[own], silent.waiting.silence
                followed = np.min(
                    [sent.first_after(entity[:, nth], ts) for nth in range(entity.shape[1])], axis=0, initial=FOREVER
                )
                kept = np.flatnonzero(followed > np.minimum(ts, FOREVER - silence) + silence)
                own = own[kept]
                if len(own):
                    table = self._schema.table(_chosen(rows, own))
                    found_here = table, ts[kept], followed[kept], entity[kept].astype(np.int32)
                    self._new.setdefault(number, []).append(found_here)

    def settle(self) -> None:
        """Lets the matches of all searches wait, in the order of their times: one pattern's pairs may be looked for in
        two searches, each of which goes through all events."""
        for number, some in self._new.items():
            table = pa.concat_tables([one[0] for one in some])
            ts, followed, entity = (np.concatenate(arrays) for arrays in list(zip(*some, strict=True))[1:])
            order = np.argsort(ts, kind="stable")
            if (order[1:] < order[:-1]).any():
                table = table.take(pa.array(order))
            at = np.arange(len(order), dtype=np.int64)
            self._silent[number].waiting.add(table, at, ts[order], followed[order], entity[order])
        self._new = {}

    def over(self, until: int | None) -> list[pa.Table]:
        """Detections of the silences that have ended before a time."""
        if until is None:
            return []
        return [table for silent in self._silent.values() for table in self._decided(silent, until)]

    def finish(self, reached_s: Mapping[str, Fraction]) -> list[pa.Table]:
        """Detections of the silences that end before the greatest time of the streams that they are about."""
        tables = []
        for silent in self._silent.values():
            if all(name in reached_s for name in silent.streams):
                until = floor(min(reached_s[name] for name in silent.streams) * self._ticks_per_s)
                tables += self._decided(silent, until)
        return tables

    def _decided(self, silent: _Silent, until: int) -> list[pa.Table]:
        tables, decided = silent.waiting.over(until)
        return [
            table.set_column(table.schema.get_field_index("decided_ts"), "decided_ts", self._schema.times(at))
            for table, at in zip(tables, decided, strict=True)
        ]

    # State.

    @property
    def entities(self) -> I32:
        """The entities that matches wait for."""
        return np.unique(np.concatenate([np.zeros(0, np.int32), *(s.waiting.entities for s in self._silent.values())]))

    def save(self, number: I32) -> dict[str, bytes]:
        """The waiting matches, by pattern; `number[entity]` is the number of an entity in the state."""
        empty = self._schema.columns.detections.empty_table()
        return {f"waiting{one.number}": one.waiting.save(empty, number) for one in self._silent.values()}

    def restore(self, saved: Mapping[str, bytes], n_entities: int) -> None:
        """Continues from a saved state."""
        for one in self._silent.values():
            one.waiting.restore(saved[f"waiting{one.number}"], self._schema.columns.detections, n_entities)


def _chosen(rows: FoundRows, at: I64) -> FoundRows:
    return FoundRows(rows.found.at(at), rows.place[at], rows.pick)


class Sent:
    """Events by entity and time, for lookups: when an entity sent next, and what it sent last."""

    def __init__(self, entity: I32, ts: I64) -> None:
        self._ts = ts
        self._times, rank = np.unique(ts, return_inverse=True)
        key = entity.astype(np.int64) * (len(self._times) + 1) + rank.reshape(-1)
        self._order = np.argsort(key, kind="stable")
        self._keys = key[self._order]
        self._entity = entity[self._order]

    def firsts(self) -> I64:
        """The first event of each entity."""
        begins = np.ones(len(self._entity), dtype=bool)
        begins[1:] = self._entity[1:] != self._entity[:-1]
        return self._order[begins]

    def first_after(self, entity: I32, ts: I64) -> I64:
        """When each entity sends for the first time after a time; FOREVER where it does not."""
        at = self._beyond(entity, ts)
        known = at < len(self._order)
        known[known] = self._entity[at[known]] == entity[known]
        after = np.full(len(entity), FOREVER, dtype=np.int64)
        after[known] = self._ts[self._order[at[known]]]
        return after

    def last_until(self, entity: I32, ts: I64) -> I64:
        """The index of each entity's last event up to a time; -1 where there is none."""
        at = self._beyond(entity, ts) - 1
        known = at >= 0
        known[known] = self._entity[at[known]] == entity[known]
        place = np.full(len(entity), -1, dtype=np.int64)
        place[known] = self._order[at[known]]
        return place

    def _beyond(self, entity: I32, ts: I64) -> I64:
        """Where in the order the events of an entity after a time begin."""
        rank = np.searchsorted(self._times, ts, side="right")
        key = entity.astype(np.int64) * (len(self._times) + 1) + rank
        return np.searchsorted(self._keys, key, side="left").astype(np.int64)
