"""A journal keeps to its size, and a stream that has read and done everything never waits for it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.polling import poll
from wayeb_py import cli
from wayeb_py.errors import DataError
from wayeb_py.parallel.receive import journal as journals
from wayeb_py.parallel.receive.journal import LEAST_BYTES, Journal
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.stream.endpoints import open_received

GROUP = [b"x" * 991] * 64  # with what a journal adds, 64,000 bytes
PATTERNS = "stream cars { key id time ts in s attr v number }\npattern Fast := (v > 50)\n"


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.journal"))


def take_in(journal: Journal, n_groups: int) -> threading.Thread:
    """A receiver, which waits while the journal is full."""

    def run() -> None:
        for _ in range(n_groups):
            journal.append(GROUP)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("most_bytes", [LEAST_BYTES, 12 << 20])
def test_a_source_goes_on_however_small_its_journal_is(most_bytes: int, tmp_path: Path) -> None:
    """The stream needs what came after the batch before its last one: its newest snapshot may be damaged."""
    journal, n_groups = Journal(tmp_path, most_bytes=most_bytes), 2 * most_bytes // 64_000
    journal.resume(0)
    receiver, ends, peak = take_in(journal, n_groups), [0, 0], 0
    while ends[-1] < n_groups * len(GROUP):
        poll(lambda: journal.safe_end > ends[-1], "more from the source")
        start, end = ends[-1], journal.safe_end
        assert len(journal.read(start, end)) == end - start
        peak = max(peak, size_of(tmp_path))
        journal.forget(start)
        ends.append(end)
    receiver.join()
    journal.close()
    assert peak <= most_bytes + 64_000


def test_a_start_finds_room_in_a_journal_that_is_full_of_what_is_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path, most_bytes=8 * LEAST_BYTES)
    journal.resume(0)
    take_in(journal, 60).join()
    assert journal.wait_safe(journal.end)
    journal.close()
    again = Journal(tmp_path, most_bytes=2 * LEAST_BYTES)
    again.resume(again.safe_end)
    assert not again.is_full
    again.close()


def test_what_was_read_leaves_the_memory_once_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "MOST_IN_MEMORY", 60_000)
    journal = Journal(tmp_path)
    journal.resume(0)
    assert journal.wait_safe(journal.append(GROUP))
    assert journal.is_full
    assert journal.read(0, 64) == GROUP
    assert not journal.is_full
    assert journal.read(0, 64) == GROUP  # from the disk
    journal.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--journal", "j", "--journal-size", "12k"], "12k is too small for a journal: 1m is the least"),
        (["--journal", "j", "--journal-size", "12"], "`12` is no size"),
        (["--journal-size", "12"], "--journal-size is for a journal"),
        (["--journal-age", "1d"], "--journal-age is for a journal"),
    ],
)
def test_a_size_that_no_journal_has_is_refused(options: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS)
    places = ["--source", "tcp://127.0.0.1:0", "--out", str(tmp_path / "o"), "--checkpoint", str(tmp_path / "c")]
    result = CliRunner().invoke(cli.app, ["stream", str(tmp_path / "p.sre"), *places, *options])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("source", "said"),
    [("tcp://127.0.0.1:0?ack", "without a journal nothing is"), ("nmea+udp://127.0.0.1:0?ack", "cannot be ack")],
)
def test_nothing_is_acknowledged_that_is_on_no_disk(source: str, said: str, tmp_path: Path) -> None:
    with Checkpoint(tmp_path) as checkpoint, pytest.raises(DataError, match=said):
        open_received(source, checkpoint, None, 0, lambda text: None)
