"""Why a pattern over pairs was detected at an event of two entities, or why it was not.

Where the event counts for the pair, its encounter is a word like any other, and so is its explanation. Where it does
not, the two were too far apart or one of them had not reported for too long (`apart`); the explanation then describes
how far their last encounter got.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.engine.arrow_values import plain
from wayeb_py.errors import DataError
from wayeb_py.why.explain import Explainer, rows_of
from wayeb_py.why.explanation import Apart, Why
from wayeb_py.why.indexed_words import one_array
from wayeb_py.why.pairs.apart import TwoTracks, too_far_text, too_old_text, tracks_of_two
from wayeb_py.why.pairs.encounters import NOTHING_KNOWN, Encounters, Two, encounters_of

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


def explain_pair(
    patterns: CompiledPatterns,
    tables: Mapping[str, pa.Table],
    name: str,
    two: Two,
    at_s: Fraction,
    reaches_s: Mapping[str, Fraction] = NOTHING_KNOWN,
) -> Why:
    """Why a pattern was detected, or not, at the last event of either of two entities at or before a time.

    `reaches_s` are times that the data of streams are known to reach, where the tables hold only the two.
    """
    tracks, row, met, own = locate_pair(patterns, tables, name, two, at_s, reaches_s)
    if own is None:
        return _explain_apart(patterns, name, tracks, met, row)
    return Explainer(patterns, met, name).explain(own)


def locate_pair(
    patterns: CompiledPatterns,
    tables: Mapping[str, pa.Table],
    name: str,
    two: Two,
    at_s: Fraction,
    reaches_s: Mapping[str, Fraction] = NOTHING_KNOWN,
) -> tuple[TwoTracks, int, Encounters, int | None]:
    """The tracks of two and the row of their last event at or before a time; their encounters, and its row there: None
    where it is none of the pair's."""
    _refuse_unknown(patterns, tables, two)
    tracks = tracks_of_two(patterns, name, tables, two)
    if not tracks.events.first:
        raise DataError(f"`{two[0]}` and `{two[1]}` are no pair: one of them has no event with a position")
    row = tracks.row_at(floor(at_s * tracks.events.chunk.ticks_per_s))
    if row is None:
        first = tracks.events.time_text(0)
        raise DataError(f"`{two[0]}` and `{two[1]}` are no pair so early: both have sent an event by {first}")
    met = encounters_of(patterns, name, tables, [tracks.two], reaches_s)
    own = np.flatnonzero(met.pairs.row == tracks.events.pairs.row[row])
    return tracks, row, met, int(own[0]) if len(own) else None


def explain_pair_event(
    patterns: CompiledPatterns, tables: Mapping[str, pa.Table], name: str, two: Two, ts: pa.ChunkedArray, seq: int
) -> Why:
    """Why a pattern was detected at the event of a pair, given by its time (a column of one) and its number."""
    met = encounters_of(patterns, name, tables, [two])
    rows = rows_of(met, ts, seq, *met.first.get(two, (0, 0)))
    explainer = Explainer(patterns, met, name)
    # Encounters may begin several times at one time: the one with the detection is meant.
    whys = (explainer.explain(row) for row in rows.tolist())
    return next((why for why in whys if why.detected), explainer.explain(int(rows[0])))


def _explain_apart(patterns: CompiledPatterns, name: str, tracks: TwoTracks, met: Encounters, row: int) -> Why:
    """Why nothing was detected at an event that does not count for the pair."""
    begins = np.flatnonzero(met.chunk.fresh)
    apart = tracks.apart_at(row, len(begins))
    when = tracks.events.time_text(row)
    entity, other = tracks.two
    summary = f"not detected: {_never_text(tracks, apart) or f'at {when} {apart.reason}'}"
    before = np.flatnonzero(met.pairs.row < tracks.events.pairs.row[row])
    if not len(before):
        if apart.n_encounters:
            summary += f"; they first meet at {met.time_text(0)}"
        return Why(
            name, None, entity, None, when, False, summary, other=other, called=tracks.each.variables, apart=apart
        )
    why = Explainer(patterns, met, name).explain(int(before[-1]))
    told = f"detected until its end, {why.ts}" if why.detected else why.summary.removeprefix("not detected: ")
    begin = met.time_text(met.word_begin(int(before[-1])))
    summary += f"; their encounter of {begin} to {why.ts}: {told}"
    return replace(why, seq=None, ts=when, detected=False, summary=summary, apart=apart)


def _never_text(tracks: TwoTracks, apart: Apart) -> str | None:
    """What two entities lack that never met in all of the data."""
    if apart.n_encounters:
        return None
    if apart.closest_m is None:
        too_old = too_old_text(apart.least_age_s, tracks.each.fresh_s)
        return f"one of them was always too old: at best, at {apart.least_age_ts}, its newest event was {too_old}"
    too_far = too_far_text(apart.closest_m, tracks.each.reach_m, f" at {apart.closest_ts}")
    return f"they were never near enough: the closest they came was {too_far}"


def _refuse_unknown(patterns: CompiledPatterns, tables: Mapping[str, pa.Table], two: Two) -> None:
    if two[0] == two[1] and len(tables) == 1:
        raise DataError(f"`{two[0]}` makes no pair with itself", hint="say which other: `--other KEY`")
    known: set[str] = set()
    for name, part in patterns.by_stream.items():
        assert part.stream.key is not None
        known |= set(pc.unique(plain(one_array(tables[name].column(part.stream.key))).cast(pa.string())).to_pylist())
    for one in two:
        if one not in known:
            raise DataError(f"the events have no entity `{one}`")
