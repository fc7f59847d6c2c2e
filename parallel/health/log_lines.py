"""A view of a stream becomes a line: of JSON for a program, of words for a person who reads a log.

A program that reads JSON reads nothing else, so everything that is written to the same place (by Spark's JVM, by a
Kafka client, in an unforeseen error) becomes JSON as well, a line at a time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal

from wayeb_py.clock import SYSTEM, Clock, utc_text
from wayeb_py.errors import visible
from wayeb_py.parallel.health.stream_view import StreamView

Form = Literal["text", "json"]
FINE = 0.1  # below, a back-pressure ratio says that all is well
JOIN_S = 2.0
STDERR = 2  # its descriptor


class LogLines:
    """A log on standard error; each line is whole, and is one event."""

    def __init__(self, form: Form = "text", stream: IO[str] | None = None, clock: Clock = SYSTEM) -> None:
        self.form, self._stream, self._clock = form, stream, clock

    def tell(self, event: str, message: str, level: str = "info", **facts: Any) -> None:
        """Writes one event: its kind, its message, and its facts for programs."""
        if self.form == "json":
            line = _as_json(self._clock, event, message, level, facts)
        else:
            mark = "" if level == "info" else f"{level}: "
            line = f"{utc_text(self._clock)} {mark}{visible(message)}"
        stream = self._stream or sys.stderr
        stream.write(line + "\n")  # at once: `print` writes the end of a line by itself, and others may come between
        stream.flush()

    def tell_batch(self, view: StreamView, more: str = "") -> None:
        """Writes how the stream is after a batch."""
        message = render_line(view) + (f"; {more}" if more else "")
        self.tell("progress" if more else "batch", message, **(view.to_json() if self.form == "json" else {}))


def _as_json(clock: Clock, event: str, message: str, level: str, facts: dict[str, Any]) -> str:
    return json.dumps(
        {"at": utc_text(clock), "level": level, "event": event, "message": message} | facts, default=str
    )


@contextmanager
def only_json() -> Iterator[None]:
    """Makes JSON of every line on standard error meanwhile, whichever library writes it; lines that are JSON stay."""
    sys.stderr.flush()
    real, (reading, writing) = os.dup(STDERR), os.pipe()
    os.dup2(writing, STDERR)
    os.close(writing)
    translator = threading.Thread(target=_translate, args=(reading, real), name="wayeb-json", daemon=True)
    translator.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, STDERR)
        translator.join(JOIN_S)  # a process that we started may outlive us, and hold the other end


def _translate(reading: int, writing: int) -> None:
    with os.fdopen(reading, "rb") as lines, os.fdopen(writing, "wb") as out:
        for line in lines:
            try:
                out.write(json_line(line))
                out.flush()
            except OSError:  # the reader is gone, but the writer must not be blocked
                continue


def json_line(line: bytes) -> bytes:
    """The line as a JSON object: itself if it is one, nothing if it is empty."""
    text = line.decode(errors="replace").rstrip()
    try:
        if isinstance(json.loads(text), dict):
            return line.rstrip() + b"\n"
    except ValueError:
        pass
    if not text:
        return b""
    said = text.removeprefix("spark: ")
    return _as_json(SYSTEM, "said" if said == text else "spark", said, "warning", {}).encode() + b"\n"


def render_line(view: StreamView) -> str:
    """What matters of a stream after a batch, in one line."""
    parts = [
        f"batch {view.batch}" if view.batch >= 0 else "no batch yet",
        f"{view.sum('events'):,} events",
        f"in {view.input_per_s:,.0f}/s",
        f"done {view.processed_per_s:,.0f}/s",
        f"back-pressure {view.backpressure:.2f}{slowest(view)}",
        f"lag {view.lag_events:,}" + ("" if view.event_time_lag_s is None else f" ({duration(view.event_time_lag_s)})"),
        f"{view.sum('detections'):,} detections",
    ]
    for name, word in (
        ("late", "late"), ("late_for_clock", "late for the clock"), ("bad", "bad"), ("duplicates", "duplicates"),
        ("ahead", "ahead of the clock"),
    ):  # fmt: skip
        if view.sum(name):
            parts.append(f"{view.sum(name):,} {word}")
    for level, numbers in view.by_level.items():
        waits = f"{round(numbers['waiting']):,} waiting"
        took = f", p99 {numbers['p99_s'] * 1000:.3g} ms" if "p99_s" in numbers else ""
        parts.append(f"{level}: {waits}" + "".join(f", {n:,} {word}" for word, n in lost_by_level(view, level)) + took)
    parts.append(f"{view.entities:,} entities")
    if view.state_bytes_per_entity is not None:
        parts.append(f"{view.state_bytes_per_entity:,.0f} bytes each")
    return ", ".join(parts)


def lost_by_level(view: StreamView, level: str) -> list[tuple[str, int]]:
    """How many events of a level were shed, and how many of its detections were stale or dropped, where any were."""
    counted = ((word, round(view.sums.get(f"level_{word}", {}).get(level, 0))) for word in ("shed", "stale", "dropped"))
    return [(word, n) for word, n in counted if n]


def slowest(view: StreamView) -> str:
    """The stage that a source waits for, where it waits and there are several: ` by shards, 92% of a batch`."""
    stage = view.slowest_stage
    if stage is None or view.backpressure < FINE:
        return ""
    return f" by {stage}, {view.stages[stage]:.0%} of a batch"


def duration(seconds: float) -> str:
    """A length of time as a person would say it."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
