"""A live stream as a station runs it: `wayeb stream --engine local` on ports of this machine, detections as lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.loads.connections import free_ports


def station(text: str, streams: Sequence[str], folder: Path) -> tuple[list[str], dict[str, int]]:
    """The command of a stream with these patterns, and the port of each of its streams."""
    folder.mkdir(parents=True)
    file = folder / "patterns.sre"
    file.write_text(text)
    ports = dict(zip(streams, free_ports(len(streams)), strict=True))
    several = len(ports) > 1
    sources = [
        word
        for name, port in ports.items()
        for word in ("--source", f"{name}=tcp://127.0.0.1:{port}" if several else f"tcp://127.0.0.1:{port}")
    ]
    command = [
        sys.executable, "-m", "wayeb_py.cli", "stream", str(file), "--engine", "local", *sources, "--out", "-",
        "--checkpoint", str(folder / "state"), "--quiet",
    ]  # fmt: skip
    return command, ports
