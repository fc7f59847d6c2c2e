"""Events of three levels as one feed: one connection, in whose lines a field says which class an event is of.

The events are those of `offered`, interleaved by the time when they are due. An entity is of one class, so entities of
different classes have different ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.loads.connections import Heard, Rendered, drive, heard_in
from benchmarks.loads.offered import DIGITS, LEVELS, N_ENTITIES, PATTERNS, SHARES, Offered

FEED = "feed"


def text_of_feed(clauses: dict[str, str] | None = None) -> str:
    """The patterns of the three levels over one stream, each about its class."""
    lines = [f"stream {FEED} {{ key id time ts in us attr class text attr v number }}"]
    for name, level in LEVELS.items():
        share = float(np.sqrt(SHARES[name]))
        slow, fast = (f'(class = "{name}" and v {value})' for value in (f"< {share!r}", f">= {1 - share!r}"))
        own = (clauses or {}).get(name, "")
        lines.append(f"pattern {PATTERNS[name]} on {FEED} := {slow} ; {fast} priority {level} {own}".rstrip())
    return "\n".join(lines) + "\n"


def render_feed(offered: Sequence[Offered]) -> tuple[Rendered, dict[str, np.ndarray]]:
    """The lines of all streams by due time, and the places of each stream's lines among them."""
    due_us = np.concatenate([one.due_us for one in offered])
    order = np.argsort(due_us, kind="stable")
    lines: list[bytes] = []
    for nth, one in enumerate(offered):
        ids, v = one.events.column("id").to_numpy() + nth * N_ENTITIES, one.events.column("v").to_numpy()
        lines += [
            b'{"id": %d, "ts": %d, "class": "%s", "v": %.*f}\n' % (key, ts, one.stream.encode(), DIGITS, value)
            for key, ts, value in zip(ids.tolist(), one.due_us.tolist(), v.tolist(), strict=True)
        ]
    lines = [lines[place] for place in order.tolist()]
    stream = np.repeat(np.arange(len(offered)), [one.n for one in offered])[order]
    places = {one.stream: np.flatnonzero(stream == nth) for nth, one in enumerate(offered)}
    return Rendered(FEED, due_us[order], b"".join(lines), np.cumsum([len(line) for line in lines])), places


def hear_feed(
    command: Sequence[str], offered: Sequence[Offered], port: int, seconds: float, folder: Path, *, calls: bool = False
) -> Heard:
    """Runs a process over the events of three levels, which come over one connection."""
    lines, places = render_feed(offered)
    run = drive(command, [lines], {FEED: port}, seconds, folder, calls=calls)
    starts_s = {stream: run.starts_s[FEED][own] for stream, own in places.items()}
    n_sent = {stream: int(np.searchsorted(own, run.n_sent[FEED])) for stream, own in places.items()}
    return heard_in(replace(run, starts_s=starts_s, n_sent=n_sent), offered)
