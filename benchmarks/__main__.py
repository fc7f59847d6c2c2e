"""Runs every experiment in a process of its own and says which bounds hold."""

from __future__ import annotations

import subprocess
import sys

EXPERIMENTS = (
    "in_memory",
    "end_to_end",
    "many_patterns",
    "start_up",
    "resident_memory",
    "places",
    "spatial",
    "maritime",
    "map_page",
)


def main() -> None:
    failed = [name for name in EXPERIMENTS if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode]
    print(f"not within bounds: {', '.join(failed)}" if failed else "all bounds hold")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
