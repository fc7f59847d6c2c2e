"""Writes a state of rules as this release saves it: `python -m tests.golden.rules_states`.

As `states` does for entities alone: after half of the events it saves the state, and notes what the other half gives.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa

import wayeb_py
from tests.golden.several_states import plain

FOLDER = Path(__file__).parent / "rules"
RULES = ("Owned", "Seen", "Together", "Shared", "Double")
N_EVENTS = 240


def events() -> dict[str, pa.Table]:
    chance = random.Random(13)
    whole = range(N_EVENTS)
    ids = [11, 7, 205, 30]
    ships = pa.table(
        {
            "id": pa.array([chance.choice(ids) for _ in whole]),
            "t": pa.array([i // 2 + 20 * (i // 60) for i in whole]),
            "lon": pa.array([chance.choice([-4.6, -4.601, -4.602, -4.5]) for _ in whole]),
            "lat": pa.array([48.3 + chance.randint(0, 3) * 1e-3 for _ in whole]),
            "speed": pa.array([chance.choice([0.0, 1.5, 1.0, 12.0]) for _ in whole]),
            "kind": pa.array([chance.choice(["a", "b", None]) for _ in whole]),
        }
    )
    radar = pa.table(
        {
            "track": pa.array([chance.choice(["t1", "t10", "7"]) for _ in whole]),
            "ms": pa.array([500 * (i + 40 * (i // 60)) for i in whole]),
            "x": pa.array([-4.6] * N_EVENTS),
            "y": pa.array([48.3] * N_EVENTS),
            "n": pa.array([chance.randint(0, 9) for _ in whole]),
        }
    )
    register = pa.table(
        {
            "id": pa.array([chance.choice(ids) for _ in whole]),
            "t": pa.array([i // 2 + 20 * (i // 60) for i in whole]),
            "company": pa.array([chance.choice(["North", "South", "East"]) for _ in whole]),
            "op": pa.array([chance.choice("++-") for _ in whole]),
        }
    )
    return {"ships": ships, "radar": radar, "register": register}


def recogniser(saved: bytes | None = None) -> wayeb_py.Recogniser:
    made = wayeb_py.Recogniser(wayeb_py.compile(FOLDER / "rules.sre"), saved=saved)
    if saved is None:
        for name, table in events().items():
            made.bind(table.schema, name)
    return made


def fed(made: wayeb_py.Recogniser, begin: int, end: int, cut: int = 30) -> list[dict[str, Any]]:
    """The detections of some events, stream by stream in turn."""
    tables = events()
    return [
        row
        for at in range(begin, end, cut)
        for name, table in tables.items()
        for row in matches_of(made.feed(table.slice(at, min(cut, end - at)), name))
    ]


def matches_of(found: Any) -> list[dict[str, Any]]:
    """The rows of rules, without what is missing."""
    rows = [plain(row) for row in found.to_arrow().to_pylist() if row["pattern"] in RULES]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def go_on(saved: bytes) -> list[dict[str, Any]]:
    """What the second half of the events gives from a state on."""
    later = recogniser(saved)
    rows = fed(later, N_EVENTS // 2, N_EVENTS)
    return [*rows, *matches_of(later.finish())]


def main() -> None:
    first = recogniser()
    fed(first, 0, N_EVENTS // 2)
    saved = first.save()
    number = int.from_bytes(saved[len(b"wayeb-state") :][:2], "little")
    path = FOLDER / f"{wayeb_py.__version__}-state-{number}.state"
    if path.exists():
        raise SystemExit(f"{path.stem} is there already, and stays as it is")
    path.write_bytes(saved)
    rows = ",\n".join(json.dumps(row) for row in go_on(saved))
    path.with_suffix(".json").write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
