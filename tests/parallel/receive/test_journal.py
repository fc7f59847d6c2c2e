"""A journal waits for the disk once for all that arrived meanwhile, drops what is old, and tells of a full disk."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import IO, Any, cast

import pytest

from tests.parallel.receive.received_runs import Collected, received
from wayeb_py.clock import Clock
from wayeb_py.errors import DamagedError, DataError
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.receive.journal import DAMAGED, Journal
from wayeb_py.parallel.receive.journal_segments import MAGIC
from wayeb_py.parallel.receive.received_buffer import Fault, ReceivedBuffer, bytes_of
from wayeb_py.parallel.receive.received_log import Receiver
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.stream.endpoints import JournalOptions, open_received

PATTERNS = "stream cars { key id time ts in s attr v number }\npattern Fast := (v > 50)\n"


def line(number: int) -> bytes:
    return b'{"id": 1, "ts": %d, "v": 60}' % number


def test_one_wait_for_the_disk_serves_all_that_arrived_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go, waits, forced = threading.Event(), threading.Event(), list[int]()
    fsync = os.fsync

    def reach(point: str) -> None:
        if point == "journal:before":
            waits.set()
            may_go.wait(60)

    def counted(handle: int) -> None:
        forced.append(handle)
        fsync(handle)

    journal = Journal(tmp_path)
    monkeypatch.setattr(failpoints, "reach", reach)
    monkeypatch.setattr(os, "fsync", counted)
    journal.append([line(0)])
    assert waits.wait(60)
    for number in range(1, 101):
        journal.append([line(number)])
    assert journal.safe_end == 0  # the stream sees nothing that a crash could take back
    may_go.set()
    assert journal.wait_safe(101)
    assert len(forced) == 2
    journal.close()


def test_what_is_done_with_goes_when_it_is_old(tmp_path: Path) -> None:
    days = [0.0]
    clock = Clock(lambda: time.time() + 86_400 * days[0])
    journal = Journal(tmp_path, segment_bytes=500, most_age_s=86_400.0, clock=clock)
    for number in range(60):
        assert journal.wait_safe(journal.append([line(number)]))
    n_segments = len(journal.segments())
    journal.forget(50)
    assert len(journal.segments()) == n_segments > 3
    days[0] = 2.0
    journal.forget(50)
    (first, _), (second, _), *_ = journal.segments()
    assert first <= 50 < second  # what the stream may need stays, however old
    journal.close()


class FullDisk:
    """A file on a disk that has room for some bytes more."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: bytes) -> int:
        taken, self._room = data[: self._room], max(0, self._room - len(data))
        self._file.write(taken)
        if len(taken) < len(data):
            self._file.flush()
            raise OSError(28, "No space left on device")
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Handed(Receiver):
    """A receiver whose records a test appends."""

    name = "by hand"
    has_ended = False

    def start(self, store: ReceivedBuffer) -> None: ...
    def close(self) -> None: ...


def test_a_full_disk_ends_the_stream_and_takes_back_nothing_that_is_safe(tmp_path: Path) -> None:
    journal, sink = Journal(tmp_path / "journal"), Collected()
    with received(Handed(), tmp_path / "state", sink, journal, patterns=PATTERNS) as run:
        assert journal.wait_safe(journal.append([line(0), line(1)]))
        run.until(lambda: len(sink.rows) == 2, "two detections")
        journal._file = cast("IO[bytes]", FullDisk(cast("IO[bytes]", journal._file), 50))
        assert not journal.wait_safe(journal.append([line(2), line(3)]))  # so that no sender hears that it is safe
        with pytest.raises(DataError, match=r"cannot write .*journal.*: No space left on device"):
            run.end(asks=False)
    again = Journal(tmp_path / "journal")
    assert again.wait_safe(again.append([line(4)]))
    kept = [bytes_of(record) for record in again._from_disk(0, again.safe_end)]
    assert kept[:2] == [line(0), line(1)]
    assert kept[-1] == line(4)
    assert set(kept[2:-1]) <= {line(2)}  # all of it, or nothing: half of the fourth is cut off
    again.close()


def test_a_disk_that_is_full_before_the_first_event_ends_the_stream(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal._file = cast("IO[bytes]", FullDisk(cast("IO[bytes]", journal._file), 5))
    with received(Handed(), tmp_path / "state", Collected(), journal, patterns=PATTERNS) as run:
        assert not journal.wait_safe(journal.append([line(0)]))
        with pytest.raises(DataError, match=r"cannot write .*journal.*: No space left on device"):
            run.end(asks=False)


@pytest.mark.parametrize("n_events", [0, 1])
def test_a_new_stream_names_a_journal_that_has_events_already(n_events: int, tmp_path: Path) -> None:
    journal, said = Journal(tmp_path / "journal/0"), list[str]()
    assert journal.wait_safe(journal.append([line(0)] * n_events))
    journal.close()
    with Checkpoint(tmp_path / "checkpoint") as checkpoint:
        address = f"unix:{tmp_path / 'socket'}"
        open_received(address, checkpoint, JournalOptions(tmp_path / "journal"), 0, said.append).close()
    assert len(said) == n_events
    assert all("has events already: they are read first" in one for one in said)


@pytest.mark.parametrize("n_bytes", [0, 5, 20])
def test_a_segment_that_a_full_disk_cut_off_in_its_first_line_is_begun_anew(n_bytes: int, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.wait_safe(journal.append([line(0)]))
    journal.close()
    (tmp_path / f"{1:020}.journal").write_bytes((MAGIC + b"0123456789abcdef")[:n_bytes])
    again = Journal(tmp_path)
    assert (again.id, again.safe_end) == (journal.id, 1)
    assert again.wait_safe(again.append([line(1)]))
    assert [bytes_of(record) for record in again._from_disk(0, 2)] == [line(0), line(1)]
    again.close()


def test_a_broken_record_amid_others_is_a_row_set_aside_and_what_followed_is_kept(tmp_path: Path) -> None:
    """The disk has changed what was written: what a writer that died has left ends there."""
    journal = Journal(tmp_path)
    assert journal.wait_safe(journal.append([line(number) for number in range(10)]))
    journal.close()
    (_, path), *_ = journal.segments()
    was = path.read_bytes()
    at = was.index(line(3))
    path.write_bytes(was[:at] + b"?" + was[at + 1 :])
    again = Journal(tmp_path)
    *kept, told = again._from_disk(0, again.safe_end)
    assert [bytes_of(record) for record in kept] == [line(0), line(1), line(2)]
    assert isinstance(told, Fault)
    facts = json.loads(told.data)
    assert facts["reason"] == DAMAGED
    assert path.with_suffix(".damaged").read_bytes()[at + 1 :] == was[at + 1 :]
    assert path.with_suffix(".damaged").name in facts["text"]
    again.close()
    once_more = Journal(tmp_path)
    assert once_more.safe_end == 4
    once_more.close()


def test_a_segment_that_is_damaged_before_others_is_named_with_the_place(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=200)
    for number in range(30):
        assert journal.wait_safe(journal.append([line(number)]))
    journal.close()
    _, (start, path), *_ = journal.segments()
    was = path.read_bytes()
    at = was.index(line(start + 1))
    path.write_bytes(was[:at] + b"?" + was[at + 1 :])
    again = Journal(tmp_path, segment_bytes=200)
    with pytest.raises(DamagedError, match=rf"the journal is damaged at byte {at - 9}") as told:
        again._from_disk(0, 30)
    assert told.value.file == str(path)
    again.close()
