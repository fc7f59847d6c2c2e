"""Levels in a live stream change when something is detected and nothing else; and what the clock decided under an
overload is decided again after a kill."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from tests.engine.priority_levels.test_levels import Hand, slowed
from tests.parallel.car_events import PATTERNS, add_file, make_events
from tests.parallel.killing import BatchRun
from tests.parallel.live.live_loops import TableLog
from tests.parallel.live.live_runs import LiveRun, copy_as_one, images
from wayeb_py.engine.priority_levels.decisions import Decisions, Made, made_of
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser
from wayeb_py.errors import PassingError
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.durable.sealed_files import unseal
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.health.totals import load_totals
from wayeb_py.parallel.live.batch_ledger import BEGUN, BatchLedger
from wayeb_py.parallel.live.lanes import leveled_loop
from wayeb_py.parallel.live.lanes.live_lanes import ServiceOptions
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.sinks.sinks import Batch

LEVELS = PATTERNS.replace("{2,}", "{2,} priority low").replace("emit v, k", "emit v, k priority high")


@pytest.fixture
def run(tmp_path: Path, source: Path) -> LiveRun:
    return LiveRun(tmp_path / "run", source, LEVELS)


def test_priorities_change_nothing_that_is_detected_or_counted(
    run: LiveRun, events: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leveled_loop, "WORK_S", 0.0)
    expected = BatchRun(events)
    with images(run, tmp_path / "images", 2, monkeypatch) as taken:
        summary = run.run(max_rows=100, interval_s=0.0)
    assert expected.differs(run.found()) is None
    assert expected.counts_differ(run.folder / "checkpoint") is None
    assert {"plan", "sink:after", "snapshot:before", "counted", "commit", "step"} <= set(taken)
    for image in (image for of_point in taken.values() for image in of_point):
        again = run.copied(image)
        again.run(max_rows=70)
        assert expected.differs(again.found()) is None, image.name
        assert expected.counts_differ(image / "checkpoint") is None, image.name
    assert {level: numbers["waiting"] for level, numbers in summary.by_level.items()} == {"high": 0, "low": 0}
    assert summary.by_level["low"]["arrived"] == summary.by_level["low"]["done"]


STREAMS = """stream cars { key id time ts in s lateness 5 s }
stream vans { key id time ts in s lateness 2 s }
pattern Fast  on cars := (v > 50){2,} priority high
pattern Swing on vans := (v > 50) ; (v < 40) priority low
pattern Slow  on cars := (v < 20){2,} priority low
"""


def test_each_stream_is_counted_once_by_the_first_level_that_reads_it(tmp_path: Path) -> None:
    """A level has nothing to do with events of a stream that only others read."""
    events = {"cars": make_events(300), "vans": make_events(500)}
    for name, own in events.items():
        add_file(own, tmp_path / name, "0")
    n_cars, n_vans = (own.num_rows - own["ts"].null_count for own in events.values())
    told: dict[str, tuple[Any, ...]] = {}
    for way, text in (("levels", STREAMS), ("no levels", re.sub("priority .*", "", STREAMS))):
        run = LiveRun(tmp_path / way, tmp_path, text)
        summary = run.run({name: FolderLog(tmp_path / name, tmp_path / way / name) for name in events})
        lines = [line for path in (tmp_path / way).rglob("*.ndjson") for line in path.read_text().splitlines()]
        aside = [line for line in lines if '"reason"' in line]
        found = sorted(map(repr, run.found().select(["pattern", "entity", "ts"]).to_pylist()))
        n_entities = load_totals(tmp_path / way / "checkpoint" / gauge.FOLDER).level("entities")
        counted = summary.rows, summary.events, summary.late, summary.bad, summary.entities
        told[way] = found, sorted(aside), n_entities, *counted
        if way == "levels":
            arrived = {level: numbers["arrived"] for level, numbers in summary.by_level.items()}
            assert arrived == {"high": n_cars, "low": n_cars + n_vans}
    assert told["levels"] == told["no levels"]
    assert all(told["levels"])


def test_a_pattern_that_changes_its_level_keeps_its_state(run: LiveRun, events: pa.Table, tmp_path: Path) -> None:
    more = make_events(1000).slice(600)
    texts = [PATTERNS, LEVELS, LEVELS.replace("high", "low"), PATTERNS, LEVELS.replace("low", "normal")]
    for number, text in enumerate(texts):
        run.patterns = text
        if number:
            add_file(more.slice(100 * (number - 1), 100), tmp_path / "in", f"{2 + number}")
        run.run(final=number == 4)
    assert BatchRun(pa.concat_tables([events, more])).differs(run.found()) is None


# Overload.

OVERLOAD = """stream cars {
    key  id
    time ts in ms
}
pattern Fast  := (v > 50){2,}                     priority high valid for 3 ms else drop
pattern Pair  := (v > 50) ; (v < 40)              priority normal valid for 20 ms
pattern Swing := (v > 50) ; (v < 40) ; (v > 50)   priority low shed after 40 ms
"""
N, AN_EVENT_S = 300, 0.0005  # one arrives each millisecond, and each level takes half of one


def cars() -> pa.Table:
    dice = np.random.default_rng(3)
    return pa.table(
        {
            "id": [f"car-{car}" for car in dice.integers(0, 6, N)],
            "ts": pa.array(np.arange(N), pa.int64()),
            "v": pa.array(dice.integers(0, 100, N), pa.float32()),
        }
    )


class Drip(TableLog):
    """A table whose events arrive in two partitions, one each millisecond of the test's clock."""

    def __init__(self, hand: Hand) -> None:
        super().__init__(cars())
        odd = np.array([int(car[-1]) % 2 == 1 for car in self._table["id"].to_pylist()])
        self._own = {"0": self._table.filter(pa.array(~odd)), "1": self._table.filter(pa.array(odd))}
        self._hand = hand

    def earliest(self) -> Offsets:
        return {"0": 0, "1": 0}

    def ends(self) -> Offsets:
        return {name: own.num_rows for name, own in self._own.items()}

    def latest(self) -> Offsets:
        self._hand.pass_time(0.0001)
        now = self._hand.now_s * 1000
        return {name: sum(1 for ts in own["ts"].to_pylist() if ts <= now) for name, own in self._own.items()}

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        own = self._own[offsets.partition].slice(offsets.start, offsets.end - offsets.start).select(wanted.names)
        yield Block(own.combine_chunks().to_batches(), own.num_rows)


class Overload(LiveRun):
    """Streams over such a log, with a recogniser that is too slow for it."""

    def __init__(self, folder: Path, text: str = OVERLOAD) -> None:
        super().__init__(folder, folder, text)
        self.hand = Hand()

    def overloaded(self, **options: Any) -> StreamSummary:
        with slowed(self.hand, AN_EVENT_S):
            asked: dict[str, Any] = {"once": False, "interval_s": 0.05, "clock": self.hand.clock} | options
            return self.run({"cars": Drip(self.hand)}, **asked)

    def decided(self) -> list[Made]:
        """What all batches have decided, as the ledger says."""
        kept: dict[int, list[Any]] = {}
        for line in (self.folder / "checkpoint/batches.ndjson").read_bytes().split(b"\n")[:-1]:
            facts = unseal(line)
            if "planned" in facts:
                kept[facts["batch"]] = facts["planned"]["levels"]["decided"]
        return [one for _, some in sorted(kept.items()) for one in made_of(some)]

    def answer(self, decided: list[Made]) -> set[tuple[Any, ...]]:
        """What a run in one piece finds that decides the same."""
        recogniser = LeveledRecogniser(wayeb_py.compile(self.patterns), decided=Decisions.of(decided))
        log = Drip(Hand())
        for partition, own in log._own.items():
            recogniser.arrive(own, "cars", source=partition)
        return rows(left.found for left in recogniser.finish() if left.found.num_rows)


def rows(tables: Iterator[pa.Table]) -> set[tuple[Any, ...]]:
    """Detections by id, and whether they are stale; the same one twice must say the same."""
    found = [(row["detection_id"], row["pattern"], bool(row["stale"])) for table in tables for row in table.to_pylist()]
    assert len(set(found)) == len({one[0] for one in found})
    return set(found)


class Kills:
    """Images of a run as a kill would leave it, at the second and the ninth time that each place is reached, with the
    time and what had left by then."""

    def __init__(self, run: Overload, target: Path, patch: pytest.MonkeyPatch, left: list[pa.Table]) -> None:
        self.at: dict[Path, tuple[float, list[pa.Table]]] = {}
        self.points: Counter[str] = Counter()
        self._context = images(run, target, 2, patch)
        self._run, self._left, self._patch = run, left, patch

    def __enter__(self) -> Kills:
        taken = self._context.__enter__()
        copy = failpoints.reach

        def reach(point: str) -> None:
            self.points[point] += 1
            if self.points[point] in (2, 9):
                before = self._run.hand.now_s, list(self._left)
                copy(point)
                self.at[taken[point][-1]] = before

        self._patch.setattr(failpoints, "reach", reach)
        return self

    def __exit__(self, *error: Any) -> None:
        self._patch.undo()
        self._context.__exit__(*error)


def assert_adds_up(summary: StreamSummary, folder: Path) -> None:
    """An event of a level is done, shed or replaced, or waits: in a run, and in all runs together."""
    totals = load_totals(folder / "checkpoint" / gauge.FOLDER)
    for level, numbers in summary.by_level.items():
        parts = sum(numbers[name] for name in ("done", "shed", "replaced", "waiting"))
        assert numbers["arrived"] == parts, (folder.name, level, numbers)
        every = {name: totals.sums[f"level_{name}"][level] for name in ("arrived", "done", "shed", "replaced")}
        assert every.pop("arrived") == sum(every.values()) + totals.levels["level_waiting"][level], (folder.name, level)


def test_an_overload_is_decided_again_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Overload(tmp_path / "run")
    with Kills(run, tmp_path / "images", monkeypatch, []) as kills:
        summary = run.overloaded()
    low, normal, high = (summary.by_level[level] for level in ("low", "normal", "high"))
    assert low["shed"] > 50
    assert low["done"] > 50
    assert normal["stale"] > 10
    assert high["dropped"] > 0
    assert rows(iter([run.found()])) == run.answer(run.decided())
    assert {"plan", "sink:before", "sink:after", "snapshot:before", "counted", "commit", "step"} <= set(kills.points)
    for image, (now_s, _) in kills.at.items():
        again = Overload(image)
        before = again.decided()
        again.hand.now_s = now_s + 0.03
        assert_adds_up(again.overloaded(), image)
        decided = again.decided()
        assert decided[: len(before)] == before, image.name
        assert rows(iter([again.found()])) == again.answer(decided), image.name


class Lines:
    """An output that has every detection at once, and never takes one back."""

    def __init__(self, tables: list[pa.Table] | None = None) -> None:
        self.tables = [] if tables is None else tables

    def open(self, stream_id: str, is_new: bool) -> None: ...
    def write(self, batch: Batch) -> None:
        self.tables += batch.tables()

    def flush(self) -> None: ...
    def close(self) -> None: ...


def test_what_has_left_at_once_is_the_same_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, sink = Overload(tmp_path / "run"), Lines()
    with Kills(run, tmp_path / "images", monkeypatch, sink.tables) as kills:
        run.overloaded(sink=sink)
    assert rows(iter(sink.tables)) == run.answer(run.decided())
    assert {"leave", "plan", "counted", "commit"} <= set(kills.points)
    for image, (now_s, left) in kills.at.items():
        again = Overload(image)
        again.hand.now_s = now_s + 0.03
        second = Lines(left)
        again.overloaded(sink=second)
        assert rows(iter(second.tables)) == again.answer(again.decided()), image.name


class Numbered(Lines):
    """Such an output, which also notes of which batch it has got something."""

    batch = -1

    def write(self, batch: Batch) -> None:
        super().write(batch)
        self.batch = batch.number


@pytest.mark.parametrize("n_left", [1, 5])
def test_what_leaves_while_the_batch_before_is_not_yet_planned_is_the_same_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_left: int
) -> None:
    text = OVERLOAD.replace("valid for 20 ms", "valid for 20 ms shed after 10 ms")
    # A batch is planned by another thread, which may have to wait for the disk while the next one has begun.
    run, sink, image, plan = Overload(tmp_path / "run", text), Numbered(), tmp_path / "image", BatchLedger.plan
    killed = threading.Event()
    at_kill: list[tuple[float, list[pa.Table]]] = []
    n_reached = [0]

    def plan_late(ledger: BatchLedger, batch: int, offset: Offset) -> None:
        assert batch or killed.wait(20)
        plan(ledger, batch, offset)

    def reach(point: str) -> None:
        if point != "leave" or sink.batch != 1 or killed.is_set():
            return
        n_reached[0] += 1
        if n_reached[0] == n_left:
            copy_as_one(run.folder, image)
            at_kill.append((run.hand.now_s, list(sink.tables)))
            killed.set()

    with monkeypatch.context() as patched:
        patched.setattr(BatchLedger, "plan", plan_late)
        patched.setattr(failpoints, "reach", reach)
        run.overloaded(sink=sink)
    ((now_s, left),) = at_kill
    again, second = Overload(image, text), Lines(left)
    again.hand.now_s = now_s + 0.03
    again.overloaded(sink=second)
    assert rows(iter(second.tables)) == again.answer(again.decided())


def test_what_the_clock_cannot_change_leaves_without_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `Fast` is noted for its validity alone. A batch notes its end as well, before the next one lets something out.
    noted: list[tuple[int, int]] = []
    sink = Lines()
    monkeypatch.setattr(BatchLedger, "note", lambda self, batch, offset: noted.append((batch, len(sink.tables))))
    run = Overload(tmp_path / "run", OVERLOAD.replace("valid for 3 ms else drop", ""))
    run.overloaded(sink=sink)
    named = [{*table.column("pattern").to_pylist()} for table in sink.tables]
    every = {nth for _, nth in noted}
    unnoted = [names for nth, names in enumerate(named) if nth not in every]
    assert all(names == {"Fast"} for names in unnoted)
    assert len(unnoted) > 10
    before_the_end = [nth for (batch, nth), (later, _) in pairwise(noted) if batch == later]
    assert all("Fast" not in named[nth] for nth in before_the_end)
    assert len(before_the_end) > 10


def offset_at(number: int, decided: list[list[Any]]) -> Offset:
    levels = {"lanes": [], "from": {}, "end": {}, "replaced": {}, "decided": decided}
    return Offset({"0": number}, Epoch(1), levels=levels)


def test_how_far_a_batch_is_lies_in_files_of_its_own_until_the_batch_is_planned(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    ledger.load()
    ledger.begin({})
    ledger.plan(6, offset_at(9, []))
    for number in (10, 11):
        ledger.note(7, offset_at(number, [["shed", "0", 1, [number, number + 1]]]))
    (begun,) = BatchLedger(tmp_path).load().after(6)
    assert (begun.at, begun.levels["decided"]) == ({"0": 11}, [["shed", "0", 1, [10, 11]], ["shed", "0", 1, [11, 12]]])
    # The next start keeps them until the batch is planned; half a line at the end was never noted.
    with (tmp_path / BEGUN[1]).open("ab") as file:
        file.write(b'{"batch": 7, "begun"\n')
    again = BatchLedger(tmp_path)
    assert again.load().n_damaged == 0
    again.begin({})
    assert BatchLedger(tmp_path).load().after(6) == [begun]
    again.plan(7, begun)
    assert [(tmp_path / name).read_bytes() for name in BEGUN] == [b"", b""]
    assert BatchLedger(tmp_path).load().after(6) == [begun]
    for one in (ledger, again):
        one.close()


def test_a_damaged_note_before_a_legible_one_is_told(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    ledger.load()
    ledger.begin({})
    for number in (10, 11):
        ledger.note(7, offset_at(number, []))
    ledger.close()
    damaged = (tmp_path / BEGUN[1]).read_bytes().replace(b"10", b"13", 1)
    (tmp_path / BEGUN[1]).write_bytes(damaged)
    assert BatchLedger(tmp_path).load().n_damaged == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_disk_that_is_full_when_something_is_noted_is_one_message(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    ledger.load()
    ledger.begin({})
    ledger.close()
    ledger._begun_files = [os.open("/dev/full", os.O_WRONLY) for _ in BEGUN]
    with pytest.raises(PassingError, match=r"cannot write `.*begun-1\.ndjson`: No space left on device"):
        ledger.note(7, offset_at(10, []))
    ledger.close()


def test_nothing_is_shed_where_nobody_wants_it(tmp_path: Path) -> None:
    run = Overload(tmp_path / "run", OVERLOAD.replace("{", "{ replace", 1))
    summary = run.overloaded(service=ServiceOptions(sheds=False))
    assert all(numbers[name] == 0 for numbers in summary.by_level.values() for name in ("shed", "replaced", "dropped"))
    expected = BatchRun(cars(), run.patterns)
    assert {row[0] for row in rows(iter([run.found()]))} == {*expected.found["detection_id"].to_pylist()}


def test_newer_events_replace_those_that_wait(tmp_path: Path) -> None:
    run = Overload(tmp_path / "run", OVERLOAD.replace("{", "{ replace", 1))
    summary = run.overloaded(service=ServiceOptions({"normal": Fraction(1, 1000)}))
    assert summary.by_level["high"]["replaced"] > 0
    assert summary.by_level["normal"]["shed"] > 0
    assert rows(iter([run.found()])) == run.answer(run.decided())


def test_a_stop_leaves_what_waits_to_the_next_start(tmp_path: Path) -> None:
    # Without shedding, lower levels are behind when the stream is stopped; other lanes then finish that first.
    text = OVERLOAD.replace("shed after 40 ms", "").replace("valid for 3 ms else drop", "")
    run = Overload(tmp_path / "run", text)
    stop = threading.Event()
    n_steps = [0]

    def step(point: str) -> None:
        n_steps[0] += point == "step"
        if n_steps[0] >= 80:
            stop.set()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(failpoints, "reach", step)
        first = run.overloaded(stop=stop)
    assert first.end == "stopped as asked"
    assert first.by_level["low"]["waiting"] > 0
    lines = (run.folder / "checkpoint/batches.ndjson").read_bytes().split(b"\n")
    assert json.loads(lines[-3])["planned"]["levels"]["from"]
    run.patterns = text.replace("priority low", "priority high")
    run.hand.pass_time(0.1)
    run.overloaded()
    expected = BatchRun(cars(), run.patterns)
    assert {row[0] for row in rows(iter([run.found()]))} == {*expected.found["detection_id"].to_pylist()}
