"""A stream in one process finds what a batch finds: however it is cut, stopped, killed and started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.parallel.car_events import PATTERNS, add_file, make_events
from tests.parallel.killing import ROOT, BatchRun
from tests.parallel.live.live_runs import LiveRun, images
from wayeb_py.errors import DataError
from wayeb_py.parallel.live import commits, step_sizes
from wayeb_py.parallel.live.batch_ledger import BatchLedger
from wayeb_py.parallel.live.commits import Committer, Ended, Writing
from wayeb_py.parallel.recovery import opened_stream
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.sinks.sinks import Batch


@pytest.fixture
def run(tmp_path: Path, source: Path) -> LiveRun:
    return LiveRun(tmp_path / "run", source)


def test_everything_that_is_there_is_found_once_and_counted(run: LiveRun, events: pa.Table) -> None:
    summary = run.run()
    expected = BatchRun(events)
    assert expected.differs(run.found()) is None
    assert (summary.rows, summary.events, summary.late) == (600, expected.counts.events, expected.counts.late)
    assert summary.end == "read everything that was there"


def test_small_batches_and_steps_find_the_same(run: LiveRun, events: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_sizes, "LEAST_STEP", 7)
    monkeypatch.setattr(step_sizes, "STEP_S", 0.0)
    summary = run.run(max_rows=50)
    assert summary.batches >= 10
    assert BatchRun(events).differs(run.found()) is None


def test_a_restart_goes_on_and_finds_nothing_twice(run: LiveRun, events: pa.Table, tmp_path: Path) -> None:
    run.run(final=False, max_rows=100)
    before = run.found().num_rows
    run.run(final=False)
    assert run.found().num_rows == before
    more = make_events(900).slice(600)
    add_file(more, tmp_path / "in", "3")
    run.run()
    assert BatchRun(pa.concat_tables([events, more])).differs(run.found()) is None


class KilledError(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("place", [(BatchLedger, "begin"), (opened_stream, "begin_version"), (Committer, "submit")])
def test_a_kill_before_the_first_batch_costs_nothing(
    place: tuple[Any, str], run: LiveRun, events: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first of these the stream has written what it is, and has no ledger yet."""

    def end(*facts: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(*place, end)
        with pytest.raises(KilledError):
            run.run()
    run.run()
    assert BatchRun(events).differs(run.found()) is None


def test_a_ledger_that_is_lost_where_states_are_is_still_refused(run: LiveRun) -> None:
    run.run(final=False)
    (run.folder / "checkpoint/batches.ndjson").unlink()
    with pytest.raises(DataError, match="the ledger of the batches is gone"):
        run.run()


def test_a_kill_at_any_named_place_costs_nothing(
    run: LiveRun, events: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = BatchRun(events)
    with images(run, tmp_path / "images", 2, monkeypatch) as taken:
        run.run(max_rows=100)
    assert expected.differs(run.found()) is None
    assert {"plan", "sink:before", "sink:inside", "sink:after", "snapshot:before", "counted", "commit", "step"} <= set(
        taken
    )
    for image in (image for of_point in taken.values() for image in of_point):
        again = run.copied(image)
        again.run(max_rows=70)
        assert expected.differs(again.found()) is None, image.name
        assert expected.counts_differ(image / "checkpoint") is None, image.name


def test_damaged_snapshots_are_made_again_from_older_ones(run: LiveRun, events: pa.Table, tmp_path: Path) -> None:
    run.run(final=False, max_rows=100)
    kept = sorted((run.folder / "checkpoint/snapshots").rglob("*.state"))
    kept += sorted((run.folder / "checkpoint/snapshots").rglob("*.changes"))
    kept[-1].write_bytes(b"half")
    more = make_events(900).slice(600)
    add_file(more, tmp_path / "in", "3")
    run.run()
    assert BatchRun(pa.concat_tables([events, more])).differs(run.found()) is None


def test_changed_patterns_keep_the_state_of_unchanged_ones(run: LiveRun, events: pa.Table, tmp_path: Path) -> None:
    run.run(final=False)
    run.patterns = PATTERNS + "pattern Slow := (v < 5)\n"
    more = make_events(900).slice(600)
    add_file(more, tmp_path / "in", "3")
    run.run()
    found = run.found()
    old = found.filter(pa.array([name != "Slow" for name in found["pattern"].to_pylist()]))
    assert BatchRun(pa.concat_tables([events, more])).differs(old) is None
    assert old.num_rows < found.num_rows
    assert any("new: Slow" in line for line in run.said)


def test_a_checkpoint_of_spark_is_refused_and_named(run: LiveRun) -> None:
    run.run()
    manifest = run.folder / "checkpoint/stream.json"
    manifest.write_text(manifest.read_text().replace('"live"', '"source"').partition(', "crc"')[0] + "}")
    with pytest.raises(DataError, match="of a stream on Spark") as told:
        run.run()
    assert "--engine spark" in (told.value.hint or "")


def test_a_live_stream_loads_neither_spark_nor_java(tmp_path: Path) -> None:
    add_file(make_events(50), tmp_path / "in", "a")
    (tmp_path / "p.sre").write_text(PATTERNS)
    arguments = ["stream", "p.sre", "--source", "in", "--out", "-", "--checkpoint", "state", "--once", "--quiet"]
    code = (
        "import sys\nfrom wayeb_py.cli import main\n"
        f"sys.argv = {['wayeb', *arguments, '--engine', 'local']!r}\ntry:\n    main()\n"
        "except SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "loaded = [name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')]\n"
        "assert loaded == [], loaded[:5]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"pattern": "Fast"' in done.stdout or '"pattern":"Fast"' in done.stdout


def test_a_batch_waits_until_the_loop_has_caught_up_unless_it_waits_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[Ended] = []
    monkeypatch.setattr(commits, "REST_S", 60.0)
    monkeypatch.setattr(commits, "PAUSE_S", 60.0)

    def write(_: Writing, ended: Ended, pause: Callable[[], None]) -> None:
        pause()
        written.append(ended)

    monkeypatch.setattr(Writing, "write", write)
    first, second = (Ended(Batch(number), Offset({}, Epoch(1)), 0.0) for number in range(2))
    committer = Committer(object.__new__(Writing))
    committer.submit(first)
    assert (committer.is_busy, written) == (True, [])
    committer.wait()
    assert (committer.is_busy, written) == (False, [first])
    committer.submit(second)
    committer.close()
    assert written == [first, second]
