"""A small fleet, its events, and how a command over them ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FLEET = """\
stream vehicles {
    key  id
    time ts
    attr speed number
}

pattern Swing := (speed > 50) ; (speed = 0)

test Swing {
    speed: 60 0 0
    detects at 1 from 0
}
"""

EVENTS = """\
id,ts,speed
a,2016-01-01T00:00:00Z,60
b,2016-01-01T00:00:01Z,0
a,2016-01-01T00:00:02Z,0
b,2016-01-01T00:00:03Z,60
b,2016-01-01T00:00:04Z,0
"""


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Wayeb = Callable[..., Ended]
