"""What followed a match of `…; silence D`: nothing for long enough, an event too early, or the end of the data.

The definition is that of the engine's `silence`: no event of the entity has a time in (t, t + D], and the data reach
beyond t + D.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

from wayeb_py.compiler.describe import amount_text, quantity_text
from wayeb_py.why.entity_words import EntityWords
from wayeb_py.why.explanation import Silence


def silence_after(words: EntityWords, row: int, silence_s: Fraction) -> Silence:
    """What followed the event of a row, whose entity has to be silent for so long."""
    chunk = words.chunk
    entity, _ = words.who(row)
    end = words.first[entity][1]
    ts = int(chunk.ts[row])
    until = ts + floor(silence_s * chunk.ticks_per_s)
    next_ts = int(chunk.ts[row + 1]) if row + 1 < end else None

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
    if words.greatest <= until:
        short_by = lasting(until - words.greatest) if words.greatest < until else None
        return Silence(*told, data_end=words.instant_text(words.greatest), short_by=short_by)
    return Silence(*told)
