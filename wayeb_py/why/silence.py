"""What followed a match of `…; silence D`: nothing for long enough, an event too early, or the end of the data.

The definition is that of the engine's `silence`: no event of the entity has a time in (t, t + D], and the data reach
beyond t + D. Of a pair it is about the one that `silence of` names, or about both.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

from wayeb_py.compiler.describe import amount_text, quantity_text
from wayeb_py.dsl import meaning as m
from wayeb_py.why.explanation import Silence
from wayeb_py.why.words import Words


def silence_after(words: Words, row: int, silence_s: Fraction, of: m.Role | None) -> Silence:
    """What followed the event of a row, whose entity, or the one of a pair, has to be silent for so long."""
    chunk = words.chunk
    ts = int(chunk.ts[row])
    until = ts + floor(silence_s * chunk.ticks_per_s)
    next_ts, greatest = words.next_sent(row, of), words.reach(of)

    def lasting(ticks: int) -> str:
        return amount_text(ticks / chunk.ticks_per_s, " s")

    told = (
        words.instant_text(ts),
        quantity_text(silence_s, " s"),
        words.instant_text(until),
        None if next_ts is None else words.instant_text(next_ts),
    )
    if next_ts is not None and next_ts <= until:
        return Silence(*told, lasted=lasting(next_ts - ts), short_by=lasting(until - next_ts))
    if greatest <= until:
        short_by = lasting(until - greatest) if greatest < until else None
        return Silence(*told, data_end=words.instant_text(greatest), short_by=short_by)
    return Silence(*told)
