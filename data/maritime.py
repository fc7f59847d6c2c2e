"""Writes AIS messages of made-up vessels on the invented sea to a Parquet file, and what occurs in them beside it.

    python data/maritime.py --events 20000000 --out maritime.parquet
    python data/maritime.py --events 25000 --vessels 50 --seed 9 --out data/maritime_sample.parquet    # the sample

`wayeb_py.simulate.maritime` says how they move; `wayeb data generate maritime` does the same from an
installed package.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wayeb_py.simulate.generated_files import write_generated
from wayeb_py.simulate.maritime import SCHEMA, generate_maritime


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the messages of made-up vessels to a Parquet file.")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--vessels", type=int, default=None, help="default: one for every 2,000 events, at least 24")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    pieces = generate_maritime(arguments.events, arguments.vessels, arguments.seed)
    beside = arguments.out.with_suffix(".occurrences.csv")
    occurring = write_generated(pieces, SCHEMA, arguments.out, beside)
    print(f"{arguments.out}: {arguments.events:,} events, occurrences {occurring}")


if __name__ == "__main__":
    main()
