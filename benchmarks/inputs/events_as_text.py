"""Events become one text: a character for the set of letters that hold at an event, vehicle after vehicle.

Engines for text need events in this form. `SEPARATOR` stands between vehicles and belongs to no letter, so that no
match reaches from one into the next; one long text costs one call, a text for each vehicle thousands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SEPARATOR = 255


@dataclass(frozen=True, slots=True)
class EncodedEvents:
    """`text[i]` is event `row[i]` of the table, or a separator where `row[i]` is -1; classes by a letter's name."""

    text: bytes
    row: np.ndarray
    classes: dict[str, bytes]


# lines: six
def letters_of(events: pa.Table, elapsed_s: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    def holds(condition: pa.ChunkedArray) -> np.ndarray:
        return np.asarray(pc.fill_null(condition, False))

    def is_status(name: str) -> np.ndarray:
        return holds(pc.equal(events["status"], name))

    def travelled(metres: float) -> np.ndarray:
        return holds(pc.greater(events["travelled"], metres))

    speed = events["speed"]
    no_signal = pc.and_(events["accelerating"], pc.equal(events["satellites"], 0))
    return {
        "parked": lambda: is_status("parked"),
        "idle": lambda: is_status("idle"),
        "moving": lambda: is_status("moving"),
        "off": lambda: holds(pc.invert(events["ignition"])) & (elapsed_s > 30 * 60),
        "fast": lambda: holds(pc.greater(speed, 50)),
        "still": lambda: holds(pc.equal(speed, 0)),
        "zero_speed": lambda: is_status("moving") & holds(pc.equal(speed, 0)) & travelled(30),
        "bad_signal": lambda: holds(no_signal) & travelled(30),
        "slow": lambda: holds(pc.less(speed, 20)),
        "towed": lambda: holds(pc.less(speed, 5)) & travelled(60),
    }


def encode(events: pa.Table, patterns: list[str], backwards: bool = False) -> EncodedEvents:
    """The text of events in the order of time, with the letters of these patterns; backwards for engines that only
    say where a match began."""
    wanted = {
        name.removeprefix("un") for spelt in re.findall("<(.*?)>", "".join(patterns)) for name in spelt.split("&")
    }
    vehicle = events["vehicle_id"].to_numpy()
    order = np.argsort(vehicle, kind="stable")
    ts = events["ts"].cast(pa.int64()).to_numpy()
    first = np.append(True, vehicle[order][1:] != vehicle[order][:-1])
    elapsed_s = np.empty(len(vehicle))
    elapsed_s[order] = np.where(first, np.nan, np.diff(ts[order], prepend=0) / 1000)
    letters = {name: letter() for name, letter in letters_of(events, elapsed_s).items() if name in wanted}
    bits = np.zeros(len(vehicle), np.int64)
    for place, column in enumerate(letters.values()):
        bits |= column.astype(np.int64) << place
    there = np.flatnonzero(np.bincount(bits, minlength=1 << len(letters)))
    code = np.zeros(1 << len(letters), np.uint8)
    code[there] = np.arange(len(there))
    starts = np.flatnonzero(first)
    text = np.insert(code[bits[order]], starts, SEPARATOR)
    row = np.insert(order, starts, -1)
    if backwards:
        text, row = text[::-1], row[::-1]
    classes = {}
    for place, name in enumerate(letters):
        has = (there >> place) & 1 > 0
        classes[name], classes["un" + name] = _class(code[there[has]]), _class(code[there[~has]])
    return EncodedEvents(text.tobytes(), row, classes)


def _class(codes: np.ndarray) -> bytes:
    # A letter that no event has is a class that no event is in; an empty one is a syntax error.
    return b"[" + b"".join(b"\\x%02x" % code for code in codes) + (b"" if len(codes) else b"\\xfe") + b"]"


def spell(pattern: str, classes: dict[str, bytes]) -> bytes:
    """A pattern with `<letter>` and `<letter&letter>` in place of classes becomes one with bytes."""

    def replace(match: re.Match[bytes]) -> bytes:
        names = match[1].decode().split("&")
        chosen = set.intersection(*(set(re.findall(rb"\\x..", classes[name])) for name in names))
        return b"[" + (b"".join(sorted(chosen)) or b"\\xfe") + b"]"

    return re.sub(rb"<([a-z_&]+)>", replace, pattern.encode())


# lines: end
