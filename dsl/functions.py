"""The functions that every pattern may call: their names, and how a call looks, for messages."""

from __future__ import annotations

USAGE: dict[str, str] = {
    "abs": "abs(x)",
    "min": "min(a, b)",
    "max": "max(a, b)",
    "angle": "angle(a, b)",
    "prev": "prev(x)",
    "elapsed": "elapsed()",
    "moved": "moved()",
    "held": "held(x)",
    "hour": 'hour("Europe/Athens")',
    "near": "near(coast, 300 m)",
    "inside": "inside(fishing)",
    "distance": "distance(p)",
    "point": "point(-4.47, 48.38)",
    "missing": "missing(x)",
    "time": 'time("2016-01-12T13:00:00Z")',
}
