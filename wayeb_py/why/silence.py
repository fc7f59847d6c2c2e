"""What followed a match of `…; silence D`: nothing for long enough, an event too early, or the end of the data.

The definition is that of the engine's `silence`: no event of the entity has a time in (t, t + D], and the data reach
beyond t + D. In a pair it is about the one that `silence of` names, or about both. The end of a word, `; $`, is such a
silence too, or the end of the data.
"""

from __future__ import annotations

from math import floor

from wayeb_py.compiler.describe import amount_text, quantity_text
from wayeb_py.dsl import meaning as m
from wayeb_py.why.explanation import Silence
from wayeb_py.why.indexed_words import Words


def silence_after(words: Words, row: int, pattern: m.Pattern) -> Silence:
    """What followed the event of a row, whose entity, or one of the pair, must be silent for the pattern's time."""
    silence_s, of = pattern.silence_s, pattern.silence_of
    assert silence_s is not None
    chunk = words.chunk
    ts = int(chunk.ts[row])
    until = ts + floor(silence_s * chunk.ticks_per_s)
    next_ts, greatest = words.next_sent(row, of), words.reach(of)
    if pattern.ends_word:
        return _end_of_word(words, ts, until, next_ts, greatest)

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


def _end_of_word(words: Words, ts: int, until: int, next_ts: int | None, greatest: int) -> Silence:
    """What ended the word of an entity after an event, or the event that continues it."""
    said = words.instant_text
    told = said(ts), "", said(min(until, max(greatest, ts))), None if next_ts is None else said(next_ts)
    if next_ts is not None and next_ts <= until:
        return Silence(*told, lasted=amount_text((next_ts - ts) / words.chunk.ticks_per_s, " s"), of_word=True)
    data_end = said(greatest) if greatest <= until else None
    return Silence(*told, data_end=data_end, of_word=True)
