"""Several streams, rules, silences and silent partitions in a live stream: with levels and without, the same answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.car_events import PATTERNS, add_file, make_events
from tests.parallel.live.live_runs import LiveRun, images
from wayeb_py.clock import Clock
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.parallel.live.batch_ledger import read_batches
from wayeb_py.parallel.live.lanes import leveled_loop
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.log import Log
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.recovery.ledger import FILE
from wayeb_py.parallel.sinks.sinks import Batch

TWO = """stream cars  {{ key id time ts in s lateness 5 s }}
stream radar {{ key track time ts in s lateness 5 s }}
pattern Fast on cars := (v > 70) ; (v > 70) {0}
pattern Echo on radar := (power > 50) {1}
pattern Quiet on cars := (v > 90) ; silence 20 s {2}
rule Both := f: Fast, e: Echo where e.ts - f.ts in 0 s .. 20 s {3}
"""
LEVELS = ("priority low", "priority high", "", "priority low")


def two_streams() -> dict[str, pa.Table]:
    dice = np.random.default_rng(8)
    cars = {"id": dice.integers(0, 6, 300), "ts": np.arange(300) * 2, "v": dice.integers(0, 100, 300)}
    echoes = {"track": dice.integers(0, 4, 150), "ts": np.arange(150) * 4, "power": dice.integers(0, 100, 150)}
    return {"cars": pa.table(cars), "radar": pa.table(echoes)}


class TwoStreams(LiveRun):
    """A live stream over a folder for each stream of a file."""

    def start(self, **options: Any) -> None:
        with Checkpoint(self.folder / "checkpoint") as checkpoint:
            journal = checkpoint.journal.parent
        names = two_streams()
        logs: dict[str, Log] = {name: FolderLog(self.source / name, journal / f"{name}.files") for name in names}
        self.run(logs, **options)


def names_of(table: pa.Table) -> list[str]:
    return sorted(table["detection_id"].to_pylist())


@pytest.mark.parametrize("clauses", [("", "", "", ""), LEVELS])
def test_several_streams_give_what_a_batch_gives(
    clauses: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leveled_loop, "WORK_S", 0.0)
    text = TWO.format(*clauses)
    patterns, tables = wayeb_py.compile(text), two_streams()
    expected = names_of(with_ids(patterns.recognise(tables).to_arrow(), patterns.rule_names))
    for name, table in tables.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        for number in range(3):
            third = len(table) // 3
            pq.write_table(table.slice(third * number, third), tmp_path / "in" / name / f"{number}.parquet")
    run = TwoStreams(tmp_path / "run", tmp_path / "in", text)
    with images(run, tmp_path / "images", 1, monkeypatch) as taken:
        run.start(max_rows=60, interval_s=0.0)
    found = run.found()
    assert {"Fast", "Echo", "Quiet", "Both"} == {*found["pattern"].to_pylist()}
    assert names_of(found) == expected
    for point in ("step", "plan", "counted"):
        again = TwoStreams(taken[point][0], tmp_path / "in", text)
        again.start(max_rows=45)
        assert names_of(again.found()) == expected, point


@pytest.mark.parametrize("levels", [False, True])
def test_a_live_stream_waits_no_longer_for_what_is_silent(levels: bool, tmp_path: Path) -> None:
    # With a lateness an entity's last events wait for others of it: `--idle` gives them up, and they are recognised.
    text = PATTERNS.replace("{2,}", "{2,} priority low") if levels else PATTERNS
    events = make_events(200)
    add_file(events, tmp_path / "in", "0")
    run = LiveRun(tmp_path / "run", tmp_path / "in", text)
    run.run(final=False, idle_s=60.0, clock=Clock(lambda: 1e6, lambda: 0.0, lambda s: None))
    before = run.found().num_rows
    run.run(final=False, idle_s=60.0, clock=Clock(lambda: 1e6 + 300, lambda: 0.0, lambda s: None))
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS))
    found = pa.concat_tables([recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()])
    assert before < found.num_rows
    assert names_of(run.found()) == names_of(with_ids(found))


class AtOnce:
    """An output that has every detection at once, and notes whether the ledger then has the end of its batch."""

    def __init__(self, ledger: Path) -> None:
        self._ledger, self.planned = ledger, list[bool]()

    def open(self, stream_id: str, is_new: bool) -> None: ...
    def write(self, batch: Batch) -> None:
        if any(lines for _, lines in batch.objects()):
            self.planned.append(batch.number in read_batches(self._ledger).planned)

    def flush(self) -> None: ...
    def close(self) -> None: ...


@pytest.mark.parametrize("levels", [False, True])
def test_who_is_silent_is_on_the_disk_before_what_follows_from_it_leaves(levels: bool, tmp_path: Path) -> None:
    text = PATTERNS.replace("{2,}", "{2,} priority low") if levels else PATTERNS
    add_file(make_events(200), tmp_path / "in", "0")
    run = LiveRun(tmp_path / "run", tmp_path / "in", text)
    run.run(final=False, idle_s=60.0, clock=Clock(lambda: 1e6, lambda: 0.0, lambda s: None))
    sink = AtOnce(tmp_path / "run" / "checkpoint" / FILE)
    run.run(final=False, idle_s=60.0, clock=Clock(lambda: 1e6 + 300, lambda: 0.0, lambda s: None), sink=sink)
    assert sink.planned
    assert all(sink.planned)
