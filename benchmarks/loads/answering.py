"""Answers what comes over a connection with the number of its last line, and does nothing else.

A line in to a line out through it takes as long as the machine itself does: the network, the pipe, and the turns that
the system gives to sender, process and collector. What a stream takes beyond that is its own.

    python -m benchmarks.loads.answering PORT
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import numpy as np

from benchmarks.loads.connections import Run, free_ports
from wayeb_py.arrays import F64

_NAME = b'"number": '


def answering(stream: str, folder: Path) -> tuple[list[str], dict[str, int]]:
    """The command of such a process, and its port."""
    folder.mkdir(parents=True)
    (port,) = free_ports(1)
    return [sys.executable, "-m", "benchmarks.loads.answering", str(port)], {stream: port}


def answered(run: Run, stream: str, since_s: float) -> F64:
    """The latencies in seconds of all lines from a time on: each has the answer to the portion that it came with."""
    starts_s, found = run.starts_s[stream], []
    before = 0
    for came_s, line in run.lines:
        after = int(line) + 1
        found.append(came_s - starts_s[before:after])
        before = after
    begin = int(np.searchsorted(starts_s, since_s))
    return np.concatenate([np.zeros(0), *found])[begin:]


def main() -> None:
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
        connection, _ = listener.accept()
    rest = b""
    while data := connection.recv(1 << 16):
        whole, _, rest = (rest + data).rpartition(b"\n")
        at = whole.rfind(_NAME)
        if at >= 0:
            number = whole[at + len(_NAME) :].partition(b"}")[0]
            os.write(1, number + b"\n")


if __name__ == "__main__":
    main()
