"""Writes a state of pairs, silences and two streams as this release saves it: `python -m tests.golden.several_states`.

As `states` does for entities alone: after half of the events it saves the state, and notes what the other half gives.
"""

from __future__ import annotations

import json
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import wayeb_py
from tests.golden.states import spans

FOLDER = Path(__file__).parent / "several"
N_EVENTS = 300


def events() -> dict[str, pa.Table]:
    chance = random.Random(31)
    whole = range(N_EVENTS)
    vessels = pa.table(
        {
            "id": pa.array([chance.choice([11, 7, 205, 30]) for _ in whole]),
            "t": pa.array([i // 2 + chance.randint(0, 5) + 20 * (i // 60) for i in whole]),
            "lon": pa.array([chance.choice([-4.6, -4.605, -4.61, -4.5, None]) for _ in whole]),
            "lat": pa.array([48.3 + chance.randint(0, 5) * 1e-3 for _ in whole]),
            "speed": pa.array([chance.choice([0.0, 1.5, 3.0, 12.0, 102.3]) for _ in whole]),
            "course": pa.array([chance.choice([0.0, 90.0, 215.0, 360.0]) for _ in whole]),
            "status": pa.array([chance.choice(["a", "b", None]) for _ in whole]),
        }
    )
    radar = pa.table(
        {
            "track": pa.array([chance.choice(["t1", "t10", "7"]) for _ in whole]),
            "ms": pa.array([500 * (i + 40 * (i // 60)) for i in whole]),
            "x": pa.array([chance.choice([-4.6, -4.605, -4.5]) for _ in whole]),
            "y": pa.array([48.3 + chance.randint(0, 5) * 1e-3 for _ in whole]),
            "n": pa.array([chance.randint(0, 9) for _ in whole]),
        }
    )
    return {"vessels": vessels, "radar": radar}


def recogniser(saved: bytes | None = None) -> wayeb_py.Recogniser:
    made = wayeb_py.Recogniser(wayeb_py.compile(FOLDER / "patterns.sre"), episodes=True, saved=saved)
    if saved is None:
        for name, table in events().items():
            made.bind(table.schema, name)
    return made


def go_on(saved: bytes) -> dict[str, Any]:
    """What the second half of the events gives from a state on."""
    later = recogniser(saved)
    parts = [later.feed(table.slice(N_EVENTS // 2), name) for name, table in events().items()]
    parts.append(later.finish())
    return {
        "detections": sorted((plain(row) for part in parts for row in part.to_arrow().to_pylist()), key=repr),
        "episodes": sorted((plain(row) for part in parts for row in spans(part.episodes()).to_pylist()), key=repr),
    }


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def main() -> None:
    first = recogniser()
    for name, table in events().items():
        first.feed(table.slice(0, N_EVENTS // 2), name)
    saved = first.save()
    number = int.from_bytes(saved[len(b"wayeb-state") :][:2], "little")
    path = FOLDER / f"{wayeb_py.__version__}-state-{number}.state"
    if path.exists():
        raise SystemExit(f"{path.stem} is there already, and stays as it is")
    path.write_bytes(saved)
    path.with_suffix(".json").write_text(json.dumps(go_on(saved), indent=0) + "\n")


if __name__ == "__main__":
    main()
