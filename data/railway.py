"""Writes a made-up railway, broken here and there, as the CSV files of the Train Benchmark.

    python data/railway.py --size 64 --out railway                    # railway/railway-repair-64-Route.csv, …
    python data/railway.py --size 1 --seed 81 --out patterns/railway/model    # the sample beside the rules

`wayeb_py.simulate.railway` says how it is built.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wayeb_py.simulate.railway import make_railway, write_railway


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a made-up railway as CSV files.")
    parser.add_argument("--size", type=int, default=1, help="there are five times as many routes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    tables = make_railway(arguments.size, arguments.seed)
    write_railway(tables, arguments.out, f"railway-repair-{arguments.size}")
    print(f"{arguments.out}: {tables['Route'].num_rows:,} routes, {tables['Segment'].num_rows:,} segments")


if __name__ == "__main__":
    main()
