"""The journal of a stream is a source for another one, while the first one writes it and afterwards."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wayeb_py import cli
from wayeb_py.errors import DamagedError, DataError
from wayeb_py.parallel.receive.journal import Journal
from wayeb_py.parallel.receive.journal_log import JournalLog
from wayeb_py.parallel.receive.received_buffer import Note, fault

PATTERNS = "stream cars { key id time ts in s attr v number }\npattern Fast := (v > 50)\n"


def lines(n: int, after: int = 0) -> list[bytes]:
    return [b'{"id": 1, "ts": %d, "v": 60}' % number for number in range(after, after + n)]


def run(tmp_path: Path, *options: str) -> Any:
    (tmp_path / "p.sre").write_text(PATTERNS)
    return CliRunner().invoke(
        cli.app, ["stream", str(tmp_path / "p.sre"), "--engine", "local", "--checkpoint", str(tmp_path / "c"), *options]
    )


def test_what_a_stream_received_is_read_again_while_it_receives_more(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j/0", segment_bytes=500)
    assert journal.wait_safe(journal.append([*lines(40), Note(b"[1, null, null]"), fault("no event", b"x")]))
    options = ["--source", f"journal:{tmp_path / 'j'}", "--once", "--final", "--no-shed", "--out", "-", "--json"]
    said = run(tmp_path, *options)
    assert said.exit_code == 0, said.output
    assert said.stdout.count('"pattern"') == 40
    assert '"events": 40' in said.stderr
    assert '"no event": 1' in said.stderr
    assert journal.wait_safe(journal.append(lines(10, 40)))  # the same checkpoint goes on
    assert run(tmp_path, *options).stdout.count('"pattern"') == 10
    journal.close()


def test_a_journal_that_grows_is_read_from_where_reading_was(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=300)
    assert journal.wait_safe(journal.append([*lines(5), Note(b"note")]))
    log = pickle.loads(pickle.dumps(JournalLog(tmp_path)))
    assert (log.earliest(), log.latest(), log.identity()) == ({"0": 0}, {"0": 5}, {"the journal": journal.id})
    assert log._records(0, 3) == lines(3)
    assert journal.wait_safe(journal.append(lines(30, 5)))
    assert log.latest() == {"0": 35}
    assert log._records(3, 35) == lines(32, 3)
    assert log._records(1, 2) == lines(1, 1)
    journal.close()


def test_what_was_removed_or_damaged_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=300)
    for number in range(6):
        assert journal.wait_safe(journal.append(lines(10, 10 * number)))
    journal.close()
    log = JournalLog(tmp_path)
    (_, first), (_, second), *_, (_, last) = journal.segments()
    whole = last.read_bytes()
    last.write_bytes(whole[:-20] + b"?" + whole[-19:])
    with pytest.raises(DamagedError, match="the journal is damaged at byte"):
        log.latest()
    last.write_bytes(whole[:-3])  # half a record: it is being written
    assert log.latest() == {"0": 59}
    second.unlink()
    with pytest.raises(DamagedError, match="lacks records between 0 and 50"):
        log._records(0, 50)
    first.unlink()
    with pytest.raises(DataError, match=r"begins at offset \d+, and 0 is wanted"):
        log._records(0, 50)


def test_a_folder_without_one_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no journal"):
        JournalLog(tmp_path)
    for number in range(2):
        Journal(tmp_path / str(number)).close()
    with pytest.raises(DataError, match="the journals of 2 sources"):
        JournalLog(tmp_path)
    (tmp_path / "0" / f"{0:020}.journal").write_text(json.dumps({"other": 1}) + "\n")
    with pytest.raises(DamagedError, match="this is no journal of wayeb"):
        JournalLog(tmp_path / "0")


def test_a_stream_does_not_read_the_journal_that_it_writes(tmp_path: Path) -> None:
    place = tmp_path / "j"
    sources = ["--source", "tcp://127.0.0.1:0", "--source", f"journal:{place}/0"]
    said = run(tmp_path, *sources, "--journal", str(place), "--out", "-")
    assert said.exit_code == 2
    assert "also read as a source" in " ".join(said.output.split())
