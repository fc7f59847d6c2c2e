"""Sends lines over real connections to a process on one core, and notes how long each detection took to come out.

    senders, a thread a stream ──tcp──▶ the process ──standard output──▶ collector, which notes when each line came

The first lines are sent at once, and the clock begins when something has come out: starting does not count. From then
on a line is sent when it is due, whether or not earlier ones were taken: where the process makes its sender wait,
the waiting counts. What does not count is that a sender itself is late, since the system lets it run late: it notes how
late it was without being made to wait (`starts_s`). An event's time is when it was due, in microseconds since the
first, so a detection's line says all.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import REPOSITORY
from benchmarks.loads.offered import DIGITS, PATTERNS, Offered
from wayeb_py.arrays import F64, I64

PACE_S = 0.0005
MOST_BYTES = 1 << 16  # size of one send
PRELUDE_US, MOST_BEFORE = 1_000_000, 2_000  # how early, and how many lines, are sent before the clock begins
SWITCH_S = 0.0001
START_S = 120.0  # how long a process may take to listen, or to call
_FOUND = re.compile(rb'"pattern": ?"(\w+)".*?"ts": ?(\d+)')


@dataclass(frozen=True, slots=True)
class Rendered:
    """The lines of a stream, and where each ends."""

    stream: str
    due_us: I64
    data: bytes
    ends: I64


def render(offered: Offered) -> Rendered:
    """Events as NDJSON."""
    columns = [offered.events.column(name).to_pylist() for name in ("id", "ts", "v")]
    lines = [b'{"id": %d, "ts": %d, "v": %.*f}\n' % (*row[:2], DIGITS, row[2]) for row in zip(*columns, strict=True)]
    return Rendered(offered.stream, offered.due_us, b"".join(lines), np.cumsum([len(line) for line in lines]))


class Sender(threading.Thread):
    """Sends the lines of one stream when they are due, until a time."""

    def __init__(
        self, connection: socket.socket, lines: Rendered, began_s: float, until_s: float, n_before: int
    ) -> None:
        super().__init__(daemon=True)
        self._connection, self._lines, self._began_s, self._until_s = connection, lines, began_s, until_s
        self.n_sent = n_before
        self._sends: list[tuple[int, float, float]] = []  # lines before, when it was sent, when the last was taken

    def starts_s(self) -> F64:
        """When the clock of each line starts, in seconds since the first was due: when it is due, later by as much as
        the sender was late without being made to wait."""
        due_s = self._lines.due_us / 1e6
        own = np.zeros(len(due_s))
        if self._sends:
            before, sent_s, free_s = (np.array(column) for column in zip(*self._sends, strict=True))
            nth = np.searchsorted(before, np.arange(int(before[0]), self.n_sent), side="right") - 1
            sent = slice(int(before[0]), self.n_sent)
            own[sent] = sent_s[nth] - self._began_s - np.maximum(due_s[sent], free_s[nth] - self._began_s)
        return np.asarray(due_s + np.maximum(own, 0.0), dtype=np.float64)

    def run(self) -> None:
        lines, view, free_s = self._lines, memoryview(self._lines.data), self._began_s
        at = int(lines.ends[self.n_sent - 1]) if self.n_sent else 0
        with contextlib.suppress(OSError):  # the process has ended
            while (now_s := time.monotonic()) < self._until_s and self.n_sent < len(lines.due_us):
                due_us = int((now_s - self._began_s) * 1e6)  # whole: for another numpy would convert all of them
                due = int(np.searchsorted(lines.due_us, due_us, side="right"))
                if due == self.n_sent:
                    time.sleep(PACE_S)
                    continue
                end = int(lines.ends[due - 1])
                if end - at > MOST_BYTES:
                    due = int(np.searchsorted(lines.ends, at + MOST_BYTES, side="right"))
                    end = int(lines.ends[due - 1])
                self._sends.append((self.n_sent, time.monotonic(), free_s))
                self._connection.sendall(view[at:end])
                free_s = time.monotonic()
                at, self.n_sent = end, due


class Collector(threading.Thread):
    """Notes what a process writes, and when."""

    def __init__(self, output: int) -> None:
        super().__init__(daemon=True)
        self._output = output
        self.parts: list[tuple[float, bytes]] = []

    def run(self) -> None:
        while data := os.read(self._output, 1 << 18):
            self.parts.append((time.monotonic(), data))

    def lines(self) -> list[tuple[float, bytes]]:
        """Every line with the time of its end."""
        found, rest = [], b""
        for at_s, data in self.parts:
            *lines, rest = (rest + data).split(b"\n")
            found += [(at_s, line) for line in lines]
        return found


@dataclass(frozen=True, slots=True)
class Run:
    """The lines that came out of a process, each with its time in seconds since the first was due, and its costs."""

    lines: list[tuple[float, bytes]]
    n_sent: dict[str, int]
    starts_s: dict[str, F64]  # by stream: when the clock of each of its lines starts
    resident_mb: float
    cpu_s: float


def leave_core(core: int = 0) -> None:
    """Keeps this process off the core on which others are measured, where there is another; and its own threads from
    waiting for each other: what a sender has under way would delay the time that the collector notes."""
    sys.setswitchinterval(SWITCH_S)
    others = os.sched_getaffinity(0) - {core}
    if others:
        os.sched_setaffinity(0, others)


def drive(
    command: Sequence[str], lines: Sequence[Rendered], ports: dict[str, int], seconds: float, folder: Path, *,
    calls: bool = False, core: int = 0, first_found_us: int = 0,
) -> Run:  # fmt: skip
    """Runs a process on a core for some seconds; `calls`: it calls our ports, else we call its. Errors go to the
    folder. The prelude includes an event that is due at `first_found_us` and completes the first detection."""
    listeners = {name: socket.create_server(("127.0.0.1", port)) for name, port in ports.items()} if calls else {}
    said = folder / "said.txt"
    with said.open("wb") as errors:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *command], stdout=subprocess.PIPE, stderr=errors, cwd=REPOSITORY
        )
    try:
        assert process.stdout is not None
        collector = Collector(process.stdout.fileno())
        collector.start()
        connections = {
            name: _called(listeners[name], process, said) if calls else _call(port, process, said)
            for name, port in ports.items()
        }
        before_us = min(PRELUDE_US, *(int(one.due_us[min(MOST_BEFORE, len(one.due_us) - 1)]) for one in lines))
        before_us = max(before_us, first_found_us + 1)
        n_before = {one.stream: _send_prelude(connections[one.stream], one, before_us) for one in lines}
        _wait_for_output(collector, process, said)
        began_s = time.monotonic() - before_us / 1e6
        senders = [
            Sender(connections[one.stream], one, began_s, began_s + seconds, n_before[one.stream]) for one in lines
        ]
        for sender in senders:
            sender.start()
        time.sleep(began_s + seconds - time.monotonic())
        if process.poll() is not None:
            raise SystemExit(f"the process has ended: {said.read_text()[-2000:]}")
        resident_mb, cpu_s = _resident_mb(process.pid), _cpu_s(process.pid)
    finally:
        process.kill()
        process.wait()
    for connection in (*connections.values(), *listeners.values()):
        connection.close()
    for thread in (*senders, collector):
        thread.join()
    came = [(at_s - began_s, line) for at_s, line in collector.lines() if at_s <= began_s + seconds]
    by_stream = dict(zip((one.stream for one in lines), senders, strict=True))
    n_sent = {stream: own.n_sent for stream, own in by_stream.items()}
    return Run(came, n_sent, {stream: own.starts_s() for stream, own in by_stream.items()}, resident_mb, cpu_s)


@dataclass(frozen=True, slots=True)
class Heard:
    """What came out of a run with three levels, by stream."""

    ts_us: dict[str, I64]
    came_us: dict[str, F64]
    offered: dict[str, Offered]
    run: Run

    def latencies(self, stream: str, after_us: int, until_s: float | None = None) -> F64:
        """The latencies of detections of events after a time. With `until_s`, when the run ended, what is there and had
        not come out by then has waited at least until then."""
        due_us, starts_s = self.offered[stream].due_us, self.run.starts_s[stream]
        counted = self.ts_us[stream] >= after_us
        line = np.searchsorted(due_us, self.ts_us[stream][counted])
        came_s = self.came_us[stream][counted] / 1e6 - starts_s[line]
        if until_s is None:
            return np.asarray(came_s, dtype=np.float64)
        expected = self.offered[stream].expected_us()
        missing = np.setdiff1d(expected[expected >= after_us], self.ts_us[stream])
        waited_s = until_s - starts_s[np.searchsorted(due_us, missing)]
        return np.concatenate([came_s, waited_s[waited_s > 0]])

    def is_right(self, may_miss: Collection[str] = ()) -> bool:
        """Whether what came out of every stream is there, once each, and is all that there is, as far as it came;
        streams of which events are shed may miss some."""
        for stream, found in self.ts_us.items():
            expected = self.offered[stream].expected_us()
            reached = expected[expected <= found.max(initial=-1)]
            if stream in may_miss:
                reached = reached[np.isin(reached, found)]
            if not np.array_equal(np.sort(found), reached):
                return False
        return len(self.ts_us["high"]) > 0


def hear(
    command: Sequence[str], offered: Sequence[Offered], ports: dict[str, int], seconds: float, folder: Path, *,
    calls: bool = False,
) -> Heard:  # fmt: skip
    """Runs a process over the events of three levels."""
    run = drive(command, [render(one) for one in offered], ports, seconds, folder, calls=calls)
    return heard_in(run, offered)


def heard_in(run: Run, offered: Sequence[Offered]) -> Heard:
    """The detections among the lines of a run, by stream."""
    found: dict[str, list[tuple[int, float]]] = {one.stream: [] for one in offered}
    stream_of = {pattern.encode(): stream for stream, pattern in PATTERNS.items()}
    for came_s, line in run.lines:
        told = _FOUND.search(line)
        if told is not None:
            ts_us = int(told[2])
            found[stream_of[told[1]]].append((ts_us, 1e6 * came_s))
    return Heard(
        {name: np.array([ts for ts, _ in own], dtype=np.int64) for name, own in found.items()},
        {name: np.array([came_us for _, came_us in own]) for name, own in found.items()},
        {one.stream: one for one in offered},
        run,
    )


def _send_prelude(connection: socket.socket, lines: Rendered, before_us: int) -> int:
    """Sends the first lines at once; returns how many those are."""
    n = int(np.searchsorted(lines.due_us, before_us))
    connection.sendall(lines.data[: int(lines.ends[n - 1])] if n else b"")
    return n


def _wait_for_output(collector: Collector, process: subprocess.Popen[bytes], said: Path) -> None:
    until_s = time.monotonic() + START_S
    while not collector.parts:
        if process.poll() is not None or time.monotonic() > until_s:
            raise SystemExit(f"nothing came out: {said.read_text()[-2000:]}")
        time.sleep(0.01)


def free_ports(n: int) -> list[int]:
    """Ports that are free at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _called(listener: socket.socket, process: subprocess.Popen[bytes], said: Path) -> socket.socket:
    listener.settimeout(START_S)
    try:
        connection, _ = listener.accept()
    except TimeoutError:
        raise SystemExit(f"nobody calls ({process.poll()}): {said.read_text()[-2000:]}") from None
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _call(port: int, process: subprocess.Popen[bytes], said: Path) -> socket.socket:
    until_s = time.monotonic() + START_S
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError:
            if process.poll() is not None or time.monotonic() > until_s:
                raise SystemExit(f"the stream did not start: {said.read_text()[-2000:]}") from None
            time.sleep(0.05)


def _resident_mb(pid: int) -> float:
    """The resident memory of a process now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(value) for value in fields[11:13]) / os.sysconf("SC_CLK_TCK")
