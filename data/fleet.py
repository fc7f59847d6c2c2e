"""Writes the messages of a made-up fleet to a Parquet file, and what occurs in them beside it.

    python data/fleet.py --events 20000000 --out fleet.parquet
    python data/fleet.py --events 14000 --vehicles 36 --seed 1 --out data/fleet_sample.parquet    # the committed sample

`wayeb_py.simulate.fleet` says how the vehicles move; `wayeb data generate fleet` does the same from an
installed package.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wayeb_py.simulate.fleet import FAULTS, SCHEMA, generate_fleet
from wayeb_py.simulate.fleet_scenes import STATUSES
from wayeb_py.simulate.generated_files import read_injected, write_generated

__all__ = ["FAULTS", "STATUSES", "generate_fleet", "read_injected", "write_fleet"]


def write_fleet(path: Path, n_events: int, n_vehicles: int | None = None, seed: int = 1) -> dict[str, int]:
    """Writes a Parquet file, and returns how often each pattern occurs in it; by default 1,000 events a vehicle."""
    pieces = generate_fleet(n_events, n_vehicles, seed)
    return write_generated(pieces, SCHEMA, path, path.with_suffix(".occurrences.csv"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the messages of a made-up fleet to a Parquet file.")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument(
        "--vehicles", type=int, default=None, help="default: one for every thousand events, at least 20"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    occurring = write_fleet(arguments.out, arguments.events, arguments.vehicles, arguments.seed)
    print(f"{arguments.out}: {arguments.events:,} events, occurrences {occurring}")


if __name__ == "__main__":
    main()
