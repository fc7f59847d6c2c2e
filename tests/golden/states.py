"""Writes a state as this release saves it, once a release: `python tests/golden/states.py`.

`NAME.state` is what a recogniser saved after half of the events, `NAME.json` what a recogniser that continues from it
finds in the other half. A release's files are never written again: they stand for the states that its users have.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa

import wayeb_py

FOLDER = Path(__file__).parent


def events() -> pa.Table:
    chance, n_events = random.Random(20), 240
    return pa.table(
        {
            "id": pa.array([chance.choice(["x", "y", "z"]) for _ in range(n_events)]),
            "t": pa.array([i // 2 + chance.randint(0, 3) for i in range(n_events)]),
            "lon": pa.array([-4.6 + i * 2e-5 for i in range(n_events)]),
            "lat": pa.array([48.3 + i * 2e-5 for i in range(n_events)]),
            "speed": pa.array([chance.choice([0.0, 1.5, 3.0, None]) for _ in range(n_events)]),
            "status": pa.array([chance.choice(["a", "b", None]) for _ in range(n_events)]),
            "engine": pa.array([chance.choice([True, False, None]) for _ in range(n_events)]),
            "n": pa.array(range(n_events)),
        }
    )


def go_on(saved: bytes) -> dict[str, Any]:
    """What the second half of the events gives from a state on."""
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(FOLDER / "patterns.sre"), episodes=True, saved=saved)
    parts = [recogniser.feed(events().slice(120)), recogniser.finish()]
    return {
        "detections": [row for part in parts for row in part.to_arrow().to_pylist()],
        "episodes": sorted((row for part in parts for row in spans(part.episodes()).to_pylist()), key=repr),
    }


def spans(episodes: pa.Table) -> pa.Table:
    """Episodes without what they emit, which the first states did not keep."""
    return episodes.select(episodes.column_names[: episodes.column_names.index("n_detections") + 1])


def main() -> None:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(FOLDER / "patterns.sre"), episodes=True)
    recogniser.feed(events().slice(0, 120))
    saved = recogniser.save()
    number = int.from_bytes(saved[len(b"wayeb-state") :][:2], "little")
    name = f"{wayeb_py.__version__}-state-{number}"
    if (FOLDER / f"{name}.state").exists():
        raise SystemExit(f"{name} is there already, and stays as it is")
    (FOLDER / f"{name}.state").write_bytes(saved)
    (FOLDER / f"{name}.json").write_text(json.dumps(go_on(saved), indent=0) + "\n")


if __name__ == "__main__":
    main()
