"""A view of a stream becomes a line: of JSON for a program, of words for a person who reads a log."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import IO, Any, Literal

from wayeb_py.parallel.health import View

Form = Literal["text", "json"]


class Lines:
    """A log on standard error; each line is whole, and is one event."""

    def __init__(self, form: Form = "text", stream: IO[str] | None = None) -> None:
        self.form, self._stream = form, stream

    def tell(self, event: str, message: str, level: str = "info", **facts: Any) -> None:
        """One event: what kind it is, what to say of it, and its facts for programs."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.form == "json":
            line = json.dumps({"at": at, "level": level, "event": event, "message": message} | facts, default=str)
        else:
            mark = "" if level == "info" else f"{level}: "
            line = f"{at} {mark}{message}"
        print(line, file=self._stream or sys.stderr, flush=True)

    def tell_batch(self, view: View, more: str = "") -> None:
        """How things are after a batch."""
        message = render_line(view) + (f"; {more}" if more else "")
        self.tell("progress" if more else "batch", message, **(view.to_json() if self.form == "json" else {}))


def render_line(view: View) -> str:
    """What matters of a stream after a batch, in one line."""
    parts = [
        f"batch {view.batch}" if view.batch >= 0 else "no batch yet",
        f"{view.sum('events'):,} events",
        f"in {view.input_per_s:,.0f}/s",
        f"done {view.processed_per_s:,.0f}/s",
        f"back-pressure {view.backpressure:.2f}",
        f"lag {view.lag_events:,}" + ("" if view.event_time_lag_s is None else f" ({duration(view.event_time_lag_s)})"),
        f"{view.sum('detections'):,} detections",
    ]
    for name, word in (("late", "late"), ("bad", "bad"), ("duplicates", "duplicates"), ("ahead", "ahead of the clock")):
        if view.sum(name):
            parts.append(f"{view.sum(name):,} {word}")
    parts.append(f"{view.entities:,} entities")
    if view.state_bytes_per_entity is not None:
        parts.append(f"{view.state_bytes_per_entity:,.0f} bytes each")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """A length of time as a person would say it."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
