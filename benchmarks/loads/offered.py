"""Events of three levels, each with the time at which it arrives: as many as a load says, periodic or sporadic.

An event's time, in microseconds, is that of its arrival, so that a detection says when its last event came; times of
one stream differ. `High` is found at every second event, `Middle` and `Low` at one in twenty: each is a fast event
after a slow one of the same entity, with thresholds that set how often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I64

N_ENTITIES = 50
SHARES = {"high": 0.5, "middle": 0.05, "low": 0.05}
LEVELS = {"high": "high", "middle": "normal", "low": "low"}
PATTERNS = {"high": "High", "middle": "Middle", "low": "Low"}
MOST_IN_BURST = 40
DIGITS = 6  # of a value


@dataclass(frozen=True, slots=True)
class Offered:
    """The events of one stream, and when each of them arrives, in microseconds, ascending."""

    stream: str
    events: pa.RecordBatch
    due_us: I64

    @property
    def n(self) -> int:
        return len(self.due_us)

    def expected_us(self) -> I64:
        """The times of the last events of all matches."""
        key = self.events.column("id").to_numpy()
        order = np.lexsort((self.due_us, key))
        v = self.events.column("v").to_numpy()[order]
        share = np.sqrt(SHARES[self.stream])
        match = (key[order][1:] == key[order][:-1]) & (v[:-1] < share) & (v[1:] >= 1 - share)
        return np.sort(self.due_us[order][1:][match])


def text_of(priorities: bool = True, clauses: dict[str, str] | None = None) -> str:
    """The patterns of the three levels, each over a stream of its own; without priorities all are alike."""
    lines = []
    for stream in LEVELS:
        lines.append(f"stream {stream} {{ key id time ts in us attr v number }}")
    for stream, level in LEVELS.items():
        share = float(np.sqrt(SHARES[stream]))
        own = (clauses or {}).get(stream, "")
        priority = f" priority {level}" if priorities else ""
        pattern = f"pattern {PATTERNS[stream]} on {stream} := (v < {share!r}) ; (v >= {1 - share!r})"
        lines.append(f"{pattern}{priority} {own}".rstrip())
    return "\n".join(lines) + "\n"


def periodic(rate: float, seconds: float, dice: np.random.Generator) -> F64:
    """Times of arrival at equal distances, from a random one on."""
    return np.asarray((np.arange(int(rate * seconds)) + dice.uniform()) / rate, dtype=np.float64)


def sporadic(rate: float, seconds: float, dice: np.random.Generator) -> F64:
    """Bursts at random times, of one to forty events that arrive together."""
    n = int(rate * seconds)
    sizes = dice.integers(1, MOST_IN_BURST + 1, max(1, 2 * n // MOST_IN_BURST + 2))
    begins = np.sort(dice.uniform(0, seconds, len(sizes)))
    return np.asarray(np.sort(np.repeat(begins, sizes)[:n]), dtype=np.float64)


def offer(stream: str, times_s: F64, dice: np.random.Generator) -> Offered:
    """Events that arrive at these times; events that would arrive in the same microsecond get different ones."""
    due_us = np.maximum.accumulate((times_s * 1e6).astype(np.int64) - np.arange(len(times_s))) + np.arange(len(times_s))
    n = len(due_us)
    keys, values = dice.integers(0, N_ENTITIES, n), np.round(dice.random(n), DIGITS)  # as they are written
    events = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(due_us), pa.array(values)], names=["id", "ts", "v"])
    return Offered(stream, events, due_us)
