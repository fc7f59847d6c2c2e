"""A stream whose state is kept by its changes: the same detections, whatever dies, whatever is damaged."""

from __future__ import annotations

import itertools
import shutil
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.driven_stream import Driven, DrivenStream
from tests.parallel.recovery.test_recovery import expected, rows
from wayeb_py.parallel.recovery.snapshots import Changed, Epoch, Snapshot, SnapshotPoint, Snapshots
from wayeb_py.parallel.stream import snapshot_policy
from wayeb_py.parallel.stream import task as stream_task

N_ENTITIES = 600
TEXT = """stream s {{ key id time ts in s {head} }}
pattern Fast  := (v > 50){{2,}}
pattern Swing := (v > 50) ; (v < 40) ; (v > 50) emit v
pattern Up    := (v > prev(v)){{3,}} within 500 s
"""


def events(n_batches: int, rows_each: int = 40, seed: int = 5) -> pa.Table:
    """Every entity once, then batches of a few; in the end some new ones."""
    dice = np.random.default_rng(seed)
    few = dice.integers(0, N_ENTITIES + 50, n_batches * rows_each)
    few = np.where(dice.random(len(few)) < 0.7, few % 23, few)
    names = np.concatenate([np.arange(N_ENTITIES), few])
    n = len(names)
    return pa.table({"id": names * 7, "ts": np.arange(n), "v": dice.integers(0, 100, n)})


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., DrivenStream]:
    def make(n_batches: int = 9, head: str = "", **options: Any) -> DrivenStream:
        table = events(n_batches)
        (tmp_path / "events").mkdir()
        pq.write_table(table, tmp_path / "events" / "a.parquet")
        patterns = wayeb_py.compile(TEXT.format(head=head))
        return DrivenStream(tmp_path / "checkpoint", tmp_path / "events", patterns, **({"ends": False} | options))

    return make


def run(stream: DrivenStream, between: Callable[[int], None] = lambda number: None) -> list[tuple[Any, ...]]:
    """All that is found: the first batch has every entity, the others a few."""
    number = 0
    stream.reader.prepareForTriggerAvailableNow()
    while (end := stream.plan(N_ENTITIES if number == 0 else 40)) != stream.offset:
        stream.commit(end, list(stream.parcels(end)))
        between(number)
        number += 1
        stream.reader.prepareForTriggerAvailableNow()
    assert number > 8
    return rows(stream.found.tables)


def files(stream: DrivenStream, kind: str) -> list[Path]:
    found = (stream.folder / "snapshots").rglob(f"*.{kind}")
    return sorted(found, key=lambda path: SnapshotPoint.parse(path.name.partition(".")[0]))


@pytest.mark.parametrize("head", ["", "lateness 30 s", "lateness 30 s forget after 4000 s dedupe"])
@pytest.mark.parametrize("between", [lambda stream: None, DrivenStream.restart], ids=["lives", "dies"])
def test_a_few_events_write_little_and_lose_nothing(
    made: Callable[..., DrivenStream], head: str, between: Callable[[DrivenStream], None]
) -> None:
    stream = made(head=head, ends=True)
    written: list[int] = []

    def look(_: int) -> None:
        written.append(max(path.stat().st_size for path in files(stream, "*")[-1:]))
        between(stream)

    found = run(stream, look)
    assert files(stream, "changes")
    assert min(written[1:]) < written[0] / 3
    alone = made_alone(stream)
    assert found == alone


def made_alone(stream: DrivenStream) -> list[tuple[Any, ...]]:
    """What one recogniser finds in the order of arrival."""
    recogniser = wayeb_py.Recogniser(stream.patterns)
    table = pq.read_table(stream.source / "a.parquet")
    return rows([recogniser.feed(table).to_arrow(), recogniser.finish().to_arrow()])


def test_a_process_that_others_have_left_behind_takes_their_changes(
    made: Callable[..., DrivenStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made()
    read: list[SnapshotPoint] = []
    original = Snapshots._read_whole
    monkeypatch.setattr(Snapshots, "_read_whole", lambda *a: read.append(a[3]) or original(*a))  # type: ignore[func-returns-value]
    processes: list[OrderedDict[Any, Any]] = [OrderedDict(), OrderedDict(), OrderedDict()]

    def another(number: int) -> None:
        # The next range comes to another of three processes, which has its own memory.
        processes[number % 3] = OrderedDict(stream_task._alive)
        stream_task._alive.clear()
        stream_task._alive.update(processes[(number + 1) % 3])

    assert run(stream, another) == expected(stream.patterns, events(9))
    wholes = {SnapshotPoint.parse(path.stem) for path in files(stream, "state")}
    assert len(read) <= 2 + 3 * len(wholes), "two begin from the first; all follow from one whole state to the next"


Paths = list[Path]


def spoil(paths: Paths) -> Paths:
    for path in paths:
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
    return paths


def rename(changes: Paths) -> Paths:
    """The last but one takes the name of the last."""
    if len(changes) < 2:
        return []
    shutil.copy(changes[-2], changes[-1])
    return changes[-1:]


def swap(changes: Paths) -> Paths:
    if len(changes) < 2:
        return []
    one, other = changes[-1].read_bytes(), changes[-2].read_bytes()
    changes[-1].write_bytes(other)
    changes[-2].write_bytes(one)
    return changes[-2:]


# The harm to whole states and changes, and the files that it is done to.
HARMS: dict[str, Callable[[Paths, Paths], Paths]] = {
    "first whole": lambda wholes, changes: spoil(wholes[:1] if len(wholes) > 1 else []),
    "last whole": lambda wholes, changes: spoil(wholes[-1:] if changes else []),
    "last changes": lambda wholes, changes: spoil(changes[-1:]),
    "some changes": lambda wholes, changes: spoil(changes[len(changes) // 2 :][:1]),
    "all changes": lambda wholes, changes: spoil(changes),
    "renamed": lambda wholes, changes: rename(changes),
    "swapped": lambda wholes, changes: swap(changes),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_damaged_is_made_again_from_what_is_left(made: Callable[..., DrivenStream], harm: str) -> None:
    stream = made()
    harmed: list[Path] = []

    def lose(number: int) -> None:
        if number % 2:
            stream.restart()
            harmed.extend(HARMS[harm](files(stream, "state"), files(stream, "changes")))

    assert run(stream, lose) == expected(stream.patterns, events(9))
    assert harmed


def test_a_task_that_was_done_twice_leaves_a_state_that_can_be_read(made: Callable[..., DrivenStream]) -> None:
    """The second attempt keeps its state whole, while the process of the first continues from its own changes."""
    stream = made()

    def twice(number: int) -> None:
        if number == 3:
            ((point, keeper),) = stream_task._alive.values()
            whole = Snapshots(stream.folder / "snapshots").write(0, "", point, keeper.recogniser.snapshot())
            assert keeper.kept is not None
            assert keeper.kept.root != whole
        if number == 5:
            stream.restart()

    assert run(stream, twice) == expected(stream.patterns, events(9))


def test_what_is_kept_is_bounded_and_all_of_it_can_be_read(made: Callable[..., DrivenStream]) -> None:
    stream = made(n_batches=60)
    sizes: list[int] = []

    def look(_: int) -> None:
        snapshots = Snapshots(stream.folder / "snapshots")
        names = files(stream, "*")
        sizes.append(sum(path.stat().st_size for path in names))
        last = SnapshotPoint.parse(names[-1].name.partition(".")[0])
        assert snapshots.read(0, "", last) is not None

    assert run(stream, look) == expected(stream.patterns, events(60))
    whole = max(path.stat().st_size for path in files(stream, "state"))
    assert max(sizes) <= 3.5 * whole, "two whole states, each with changes of half its size"
    assert len(files(stream, "state")) <= 3


def test_changes_are_of_use_only_with_the_very_state_they_change(tmp_path: Path) -> None:
    states = Snapshots(tmp_path, "s")
    points = [SnapshotPoint(Epoch(), offset) for offset in (10, 20, 30, 40)]
    root = states.write(0, "p", points[0], Snapshot(b"ten"))
    for since, point in itertools.pairwise(points):
        states.write_changes(0, "p", point, Changed(root, since, Snapshot(b"to %d" % point.offset)))
    chain = states.read(0, "p", points[3])
    assert chain is not None
    assert [changed.snapshot.saved for changed in chain.changes] == [b"to 20", b"to 30", b"to 40"]
    between = states.changes_between(0, "p", root, points[1], points[3])
    assert between is not None
    assert [changed.since for changed in between] == points[1:3]
    states.write(0, "p", points[0], Snapshot(b"another ten"))
    assert states.read(0, "p", points[3]) is None
    nearest = states.nearest(0, "p", points[3])
    assert nearest is not None
    assert nearest.point == points[0]


def test_garbage_is_what_nothing_goes_back_to(tmp_path: Path) -> None:
    states = Snapshots(tmp_path, "s")
    at = [SnapshotPoint(Epoch(), offset) for offset in range(0, 100, 10)]

    def names() -> list[str]:
        return sorted(path.name for path in tmp_path.rglob("*.*"))

    first = states.write(0, "p", at[1], Snapshot(b"w"))
    for since, point in ((1, 2), (2, 3)):
        states.write_changes(0, "p", at[point], Changed(first, at[since], Snapshot(b"c")))
    second = states.write(0, "p", at[4], Snapshot(b"w"))
    for since, point in ((4, 5), (5, 6), (6, 7)):
        states.write_changes(0, "p", at[point], Changed(second, at[since], Snapshot(b"c")))
    before = names()
    states.collect(0, "p", at[7])
    assert names() == before, "the whole state in use might be damaged"
    states.write(0, "p", at[8], Snapshot(b"w"))
    states.collect(0, "p", at[7])
    assert names() == sorted([*before, "0-0-0-80.state"]), "nobody has said that it is done"
    states.collect(0, "p", at[8])
    assert names() == sorted(name for name in [*before, "0-0-0-80.state"] if int(name.split(".")[0][6:]) >= 40)
    # A task that was done twice left a whole state in the middle of changes that go back to another.
    states.write_changes(0, "p", at[9], Changed(second, at[7], Snapshot(b"c")))
    states.collect(0, "p", at[9])
    assert "0-0-0-40.state" in names()
    assert states.read(0, "p", at[9]) is not None


def test_silence_and_the_end_are_changes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000_000.0]
    monkeypatch.setattr(snapshot_policy, "WHOLE_AT", 100.0)
    found: list[Any] = []
    for name, dies in (("lives", False), ("dies", True)):
        clock[0] = 1_000_000.0
        source = tmp_path / name / "events"
        source.mkdir(parents=True)
        patterns = wayeb_py.compile(TEXT.format(head="lateness 50 s"))
        dice = np.random.default_rng(2)
        pq.write_table(events(0), source / "000.parquet")
        stream = DrivenStream(
            tmp_path / name / "checkpoint", source, patterns, lambda: clock[0], idle_s=60.0, ends=False, episodes=True
        )
        for number in range(1, 12):
            end = stream.plan()
            stream.commit(end, list(stream.parcels(end)))
            clock[0] += 25 if number % 4 else 200
            n = 20
            ids = dice.integers(0, 25, n) * 7 if number % 3 else dice.integers(0, 900, n) * 7
            table = pa.table({"id": ids, "ts": 600 + number * 40 + np.arange(n), "v": dice.integers(0, 100, n)})
            pq.write_table(table, source / f"{number:03}.parquet")
            if dies:
                stream.restart()
        stream.run()
        assert files(stream, "changes")
        counts = [{k: v for k, v in one.items() if k in ("events", "late", "entities")} for one in stream.found.counts]
        found.append((sorted(repr(row) for table in stream.found.tables for row in table.to_pylist()), counts))
    assert found[0] == found[1]
    assert found[0][0]


def test_a_flipped_bit_in_a_whole_state_or_in_changes_changes_no_answer(
    made: Callable[..., DrivenStream], tmp_path: Path
) -> None:
    stream = made()
    for number in range(7):
        end = stream.plan(N_ENTITIES if number == 0 else 40)
        stream.commit(end, list(stream.parcels(end)))
    kept, offset, folder = stream.found, stream.offset, stream.folder
    good = tmp_path / "good"
    shutil.copytree(folder, good)
    n_files = {kind: len(files(stream, kind)) for kind in ("state", "changes")}
    assert min(n_files.values()) > 0
    dice = np.random.default_rng(3)
    for _ in range(30):
        shutil.rmtree(folder)
        shutil.copytree(good, folder)
        path = files(stream, "*")[dice.integers(sum(n_files.values()))]
        data = bytearray(path.read_bytes())
        data[dice.integers(len(data))] ^= 1 << int(dice.integers(8))
        path.write_bytes(data)
        stream.offset, stream.found = offset, Driven(list(kept.tables))
        stream.restart()
        assert rows(stream.run(40).tables) == expected(stream.patterns, events(9)), path.name
