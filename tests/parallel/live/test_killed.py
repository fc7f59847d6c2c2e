"""A live stream whose process is killed, a real one, loses nothing that it acknowledged, and finds nothing twice."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.parallel.car_events import PATTERNS
from tests.parallel.killing import BatchRun, Traps, streaming
from tests.parallel.receive.received_runs import as_lines
from tests.polling import poll
from wayeb_py.parallel.live.batch_ledger import read_batches

N_CARS, N_EVENTS, PART = 7, 700, 50


def events() -> pa.Table:
    """Events in the order of time, one a second; after them something that completes nothing."""
    dice = np.random.default_rng(11)
    cars = [*dice.integers(0, N_CARS, N_EVENTS), *range(N_CARS)]
    speeds = [*dice.integers(0, 100, N_EVENTS), *[0] * N_CARS]
    times = [*range(N_EVENTS), *range(5000, 5000 + N_CARS)]
    return pa.table(
        {
            "id": [f"car-{car}" for car in cars], "ts": pa.array(times, pa.int64()),
            "v": pa.array(speeds, pa.float32()), "k": ["a"] * len(cars),
        }
    )  # fmt: skip


class Sender:
    """Sends lines until they are acknowledged; those that are not, when it is cut off, once more."""

    def __init__(self, path: Path, table: pa.Table) -> None:
        self._path, self._table, self.n_safe = path, table, 0

    def send(self, until: int) -> None:
        """Returns when `until` events are acknowledged, or the stream is gone."""
        began = self.n_safe
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(str(self._path))
                with connection.makefile() as told:
                    for at in range(began, until, PART):
                        end = min(at + PART, until)
                        connection.sendall(as_lines(self._table.slice(at, end - at)))
                        while self.n_safe < end:
                            self.n_safe = began + int(told.readline())
        except (OSError, ValueError):  # it was killed
            return


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    table = events()
    expected = BatchRun(table)
    patterns = PATTERNS.replace("lateness 5 s", "lateness 5 s\n    dedupe")
    path = tmp_path / "lines.sock"
    options = ["--source", f"unix:{path}?ack", "--journal", str(tmp_path / "journal"), "--interval", "100ms"]
    traps = Traps(tmp_path / "traps")
    sender = Sender(path, table)
    ledger = tmp_path / "checkpoint/batches.ndjson"
    for until, trap in ((300, "counted"), (table.num_rows, None)):
        traps.lay(*[trap] if trap is not None else [])
        with streaming(tmp_path, *options, environment=traps.environment, patterns=patterns, engine="local") as stream:
            stream.until(path.exists, "the socket")
            while sender.n_safe < until and stream.process.poll() is None:
                sender.send(until)
            if trap is not None:
                poll(lambda here=stream: here.process.poll() is not None, "the trap")  # type: ignore[misc]
                assert stream.process.returncode == -9
                continue
            stream.until(lambda: _taken(ledger) >= table.num_rows, "the last batch")
            stream.process.terminate()
            assert stream.end() == 0, stream.said()
    assert expected.differs(pq.read_table(tmp_path / "out")) is None


def _taken(ledger: Path) -> int:
    known = read_batches(ledger)
    done = known.planned.get(known.last_done)
    return 0 if done is None else done.at.get("0", 0)
