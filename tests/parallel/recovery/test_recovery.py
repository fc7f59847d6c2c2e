"""State is a function of the log and the epoch: it is found again, made again, or missed loudly."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.driven_stream import DrivenStream
from wayeb_py import stored_patterns
from wayeb_py.errors import DataError
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery import pattern_versions, snapshots
from wayeb_py.parallel.recovery.checkpoint import Checkpoint, begin
from wayeb_py.parallel.recovery.first_start import begin_version, last_schema
from wayeb_py.parallel.stream.task import _alive
from wayeb_py.parallel.wire.parcel import Parcel

STREAM = "stream s { key id time ts in s }\n"
FAST = "pattern Fast := (v > 50){2,}\n"
SWING = "pattern Swing := (v > 50) ; (v < 40) ; (v > 50) emit v\n"


def events(n: int = 400, seed: int = 3) -> pa.Table:
    dice = np.random.default_rng(seed)
    return pa.table({"id": dice.integers(0, 6, n), "ts": np.arange(n), "v": dice.integers(0, 100, n)})


def write_parts(table: pa.Table, folder: Path, rows: int = 150) -> None:
    """The table in two partitions by entity, in files of `rows` rows."""
    for part in range(2):
        (folder / f"part={part}").mkdir(parents=True, exist_ok=True)
        own = table.filter(pa.array(table["id"].to_numpy() % 2 == part))
        for number, start in enumerate(range(0, own.num_rows, rows)):
            pq.write_table(own.slice(start, rows), folder / f"part={part}" / f"{number:03}.parquet", row_group_size=40)


def ids(tables: list[pa.Table]) -> list[str]:
    return sorted(itertools.chain.from_iterable(table["detection_id"].to_pylist() for table in tables))


def rows(tables: list[pa.Table]) -> list[tuple[Any, ...]]:
    """Detections without their ids, in an order of their own."""
    names = ("pattern", "entity", "ts", "seq", "start_ts", "start_seq")
    return sorted(tuple(row[name] for name in names) for table in tables for row in table.to_pylist())


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., DrivenStream]:
    def make(patterns: wayeb_py.Patterns | None = None, table: pa.Table | None = None, **options: Any) -> DrivenStream:
        write_parts(events() if table is None else table, tmp_path / "events")
        compiled = patterns or wayeb_py.compile(STREAM + FAST + SWING)
        return DrivenStream(tmp_path / "checkpoint", tmp_path / "events", compiled, **options)

    return make


def expected(patterns: wayeb_py.Patterns, table: pa.Table) -> list[tuple[Any, ...]]:
    return rows([patterns.recognise(table).to_arrow()])


def without_times(parcels: list[Parcel]) -> list[tuple[str, int, int, bytes]]:
    return [(p.kind, p.split, p.number, p.payload) for p in parcels if p.kind != "counts"]


def test_a_range_that_is_read_again_gives_the_same_bytes(made: Callable[..., DrivenStream]) -> None:
    stream = made()
    for _ in range(3):
        end = stream.plan(60)
        first = list(stream.parcels(end))
        stream.restart()
        again = list(stream.parcels(end))
        assert [without_times(part) for part in first] == [without_times(part) for part in again]
        stream.commit(end, again)
    assert ids(stream.run(60).tables) == sorted(set(ids(stream.found.tables)))


def test_a_task_that_dies_in_the_middle_leaves_no_trace(made: Callable[..., DrivenStream]) -> None:
    stream = made()
    while (end := stream.plan(50)) != stream.offset:
        assert stream.offset is not None
        for task in stream.reader.partitions(stream.offset, end):
            reading = stream.reader.read(task)
            next(reading)
            reading.close()  # type: ignore[attr-defined]
        assert not _alive, "a recogniser that has fed half a range must not be gone on with"
        stream.commit(end, list(stream.parcels(end)))
    assert rows(stream.found.tables) == expected(stream.patterns, events())


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:30])


@pytest.mark.parametrize(
    ("which", "harm"),
    [
        pytest.param(slice(None), Path.unlink, id="all gone"),
        pytest.param(slice(-1, None), Path.unlink, id="last gone"),
        pytest.param(slice(-1, None), damage, id="last damaged"),
        pytest.param(slice(-1, None), cut_short, id="last cut short"),
    ],
)
def test_a_lost_state_is_made_again_from_what_is_left(
    made: Callable[..., DrivenStream], which: slice, harm: Callable[[Path], None]
) -> None:
    stream = made(ends=False)

    def lose() -> None:
        for folder in (stream.folder / "snapshots" / "0").iterdir():
            states = sorted(folder.glob("*.state"), key=lambda path: snapshots.SnapshotPoint.parse(path.stem))
            for path in states[which]:
                harm(path)
        stream.restart()

    stream.run(70, lose)
    assert stream.found.n_batches == 6
    assert rows(stream.found.tables) == expected(stream.patterns, events())


def test_a_state_that_cannot_be_made_again_stops_the_stream_and_says_so(made: Callable[..., DrivenStream]) -> None:
    stream = made(ends=True)
    stream.run(100)
    for path in (stream.folder / "snapshots").rglob("*.state"):
        path.unlink()
    pq.write_table(events(10), stream.source / "part=0" / "new.parquet")
    stream.restart()
    with pytest.raises(DataError, match="cannot be made again") as raised:
        stream.run(100)
    assert "--restart beginning" in str(raised.value)


@pytest.mark.parametrize("latest", [{"part=0": 99, "part=1": 400}, {"part=1": 400}])
def test_a_log_that_ends_before_what_was_read_stops_the_stream_and_says_so(
    made: Callable[..., DrivenStream], monkeypatch: pytest.MonkeyPatch, latest: dict[str, int]
) -> None:
    stream = made(ends=False)
    stream.run()
    monkeypatch.setattr(FolderLog, "latest", lambda self: latest)
    stream.restart()
    with pytest.raises(DataError, match=r"partition part=0 ends at offset .* made anew or cut short") as raised:
        stream.plan()
    assert "--restart beginning" in str(raised.value)


def test_the_next_range_continues_with_the_recogniser_that_is_alive(
    made: Callable[..., DrivenStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made()
    end = stream.plan(50)
    stream.commit(end, list(stream.parcels(end)))
    monkeypatch.setattr(snapshots.Snapshots, "read", lambda *_: pytest.fail("nothing had to be restored"))
    end = stream.plan(50)
    stream.commit(end, list(stream.parcels(end)))


def test_old_states_are_collected_and_some_are_kept_to_go_back_to(made: Callable[..., DrivenStream]) -> None:
    stream = made()
    stream.run(10)
    for folder in (stream.folder / "snapshots" / "0").iterdir():
        assert len(list(folder.iterdir())) == snapshots.KEPT


def test_counts_add_up_however_often_a_range_is_repeated(made: Callable[..., DrivenStream]) -> None:
    stream = made()
    while (end := stream.plan(33)) != stream.offset:
        list(stream.parcels(end))
        stream.restart()
        stream.commit(end, list(stream.parcels(end)))
    found = stream.found
    assert (found.total("rows"), found.total("events"), found.total("new_entities")) == (400, 400, 6)
    n_found = sum(sum(counts["detections"].values()) for counts in found.counts)
    assert n_found == sum(table.num_rows for table in found.tables)
    last = {counts["partition"]: counts["entities"] for counts in found.counts}
    assert last == {"part=0": 3, "part=1": 3}
    assert max(counts["last_s"] for counts in found.counts if counts["last_s"] is not None) == 399


# Other patterns.


def test_unchanged_patterns_keep_their_state_and_new_ones_start_fresh(made: Callable[..., DrivenStream]) -> None:
    table = events()
    stream = made(wayeb_py.compile(STREAM + FAST + "pattern Gone := (v > 10)\n"), ends=False)
    end = stream.plan(200)
    stream.commit(end, list(stream.parcels(end)))
    parts = [table.filter(pa.array(table["id"].to_numpy() % 2 == part)) for part in range(2)]
    since = [part["ts"][end["at"][f"part={number}"]].as_py() for number, part in enumerate(parts)]
    stream.exchange(wayeb_py.compile(STREAM + FAST + SWING))
    stream.run(50)
    found = rows(stream.found.tables)
    fast = [row for row in found if row[0] == "Fast"]
    assert fast == expected(wayeb_py.compile(STREAM + FAST), table)
    assert {row[0] for row in found} == {"Fast", "Gone", "Swing"}
    # To the new pattern its words begin at the exchange: of each partition half was read before.
    kept = [row for row in expected(wayeb_py.compile(STREAM + SWING), table) if row[4] >= since[row[1] % 2]]
    assert [row for row in found if row[0] == "Swing"] == kept


def test_a_batch_that_was_planned_is_repeated_with_the_patterns_it_was_planned_with(
    made: Callable[..., DrivenStream],
) -> None:
    stream = made(wayeb_py.compile(STREAM + FAST))
    end = stream.plan(120)
    before = list(stream.parcels(end))
    stream.exchange(wayeb_py.compile(STREAM + SWING))
    again = list(stream.parcels(end))
    assert [without_times(part) for part in before] == [without_times(part) for part in again]
    stream.commit(end, again)
    stream.run(120)
    names = {row[0] for row in rows(stream.found.tables)}
    assert names == {"Fast", "Swing"}


def test_a_batch_planned_by_an_incompatible_release_is_refused_with_a_choice(
    made: Callable[..., DrivenStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made(wayeb_py.compile(STREAM + FAST))
    path = stream.folder / "eras" / "000000.patterns"
    good, head = path.read_bytes(), (stream.folder / "eras" / "000000.era").read_bytes()
    # A release that compiles the same patterns to other automata.
    monkeypatch.setattr(stored_patterns, "automaton_digest", lambda pattern: "another")
    pattern_versions.load_version.cache_clear()
    end = stream.plan()
    with pytest.raises(DataError, match=r"release 0\..*incompatible with 0\..*compile to other automata") as raised:
        list(stream.parcels(end))
    assert "--restart beginning" in str(raised.value)
    monkeypatch.undo()
    monkeypatch.setattr(pattern_versions, "FORMAT", pattern_versions.FORMAT + 1)
    with pytest.raises(DataError, match=r"\(format 2, .*\(format 3, .*the formats differ"):
        list(stream.parcels(end))
    assert path.read_bytes() == good
    assert b'"release": "' in head
    assert pattern_versions.load_schema(stream.folder / "eras", 0).names == ["id", "ts", "v"]


def test_another_release_begins_an_era_and_opens_none_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns, schema = wayeb_py.compile(STREAM + FAST), events(1).schema
    said: list[str] = []
    with Checkpoint(tmp_path) as checkpoint:
        manifest = begin("folder:x", patterns, False)
        for version in ("1.0", "1.0", "2.0"):
            monkeypatch.setattr(wayeb_py, "__version__", version)
            begin_version(checkpoint, manifest, patterns, [patterns.names], schema, said.append)
            (tmp_path / "eras" / "000000.patterns").write_bytes(b"nobody can open this")
            assert last_schema(checkpoint, manifest) == schema
        assert [version["by"]["release"] for version in manifest.pattern_versions] == ["1.0", "2.0"]
        assert checkpoint.read() == manifest
    assert "version 0 of the patterns is damaged: its checksum does not fit" in said[0]
    assert said[0].endswith("they are those of this run, and are written again")
    assert "the last run was of release 1.0" in said[1]
    assert len(said) == 2


def test_groups_of_patterns_find_what_all_of_them_find_and_count_events_once(made: Callable[..., DrivenStream]) -> None:
    patterns = wayeb_py.compile(STREAM + FAST + SWING)
    stream = made(patterns)
    stream.exchange(patterns, [["Fast"], ["Swing"]])
    stream.run(90)
    assert rows(stream.found.tables) == expected(patterns, events())
    assert stream.found.total("events") == 400


# Silence, lateness, the end.


def late(lateness: str = "100 s") -> wayeb_py.Patterns:
    return wayeb_py.compile(f"stream s {{ key id time ts in s lateness {lateness} }}\n{FAST}")


def test_events_held_back_are_recognised_when_their_entity_has_been_silent_for_long(tmp_path: Path) -> None:
    clock = [1_000_000.0]
    source = tmp_path / "events"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 1, 2, 2], "ts": [0, 1, 0, 1], "v": [60, 60, 60, 60]}), source / "a.parquet")
    stream = DrivenStream(tmp_path / "checkpoint", source, late(), wall_s=lambda: clock[0], idle_s=60.0, ends=False)

    def step() -> dict[str, Any]:
        end = stream.plan()
        stream.commit(end, list(stream.parcels(end)))
        return end

    step()
    assert not stream.found.tables, "both are still waited for"
    clock[0] += 50
    pq.write_table(pa.table({"id": [2], "ts": [2], "v": [60]}), source / "b.parquet")
    step()
    assert not stream.found.tables
    clock[0] += 29  # 1 has been silent for 79 s, 2 for 29 s
    pq.write_table(pa.table({"id": [3], "ts": [2], "v": [60]}), source / "c.parquet")
    step()
    assert [row[1] for row in rows(stream.found.tables)] == [1]
    stream.restart()
    assert stream.plan() == stream.offset, "nobody has been silent for long enough since"
    clock[0] += 80
    assert stream.offset is not None
    before = stream.offset["at"]
    assert step()["at"] == before, "a batch without events"
    assert [row[1] for row in rows(stream.found.tables)] == [1, 2, 2]
    clock[0] += 1000
    assert stream.plan() == stream.offset, "there is nobody left to be given up"


@pytest.mark.parametrize(("before_s", "after_s"), [(60.0, 3600.0), (3600.0, 60.0)])
def test_how_long_a_silence_has_to_be_may_change_with_a_restart(
    tmp_path: Path, before_s: float, after_s: float
) -> None:
    clock = [1_000_000.0]
    source = tmp_path / "events"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 1], "ts": [0, 1], "v": [60, 60]}), source / "a.parquet")
    stream = DrivenStream(tmp_path / "checkpoint", source, late(), wall_s=lambda: clock[0], idle_s=before_s, ends=False)
    stream.run()
    stream.options["idle_s"] = after_s
    stream.restart()
    clock[0] += after_s - 1
    pq.write_table(pa.table({"id": [2], "ts": [0], "v": [60]}), source / "b.parquet")
    end = stream.plan()
    parcels = [without_times(part) for part in stream.parcels(end)]
    assert not any(kind == "detections" for part in parcels for kind, *_ in part), "not for long enough"
    clock[0] += 2 * after_s
    stream.options["idle_s"] = 1.0
    stream.restart()
    assert [without_times(part) for part in stream.parcels(end)] == parcels, "what is planned stays"
    stream.options["idle_s"] = after_s
    stream.restart()
    stream.commit(end, list(stream.parcels(end)))
    stream.run()
    assert [row[1] for row in rows(stream.found.tables)] == [1]


def test_no_entity_is_silent_whose_events_are_in_the_log_after_a_downtime(tmp_path: Path) -> None:
    clock = [1_000_000.0]
    source = tmp_path / "events"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 1, 2], "ts": [10, 11, 10], "v": [60, 60, 60]}), source / "a.parquet")
    stream = DrivenStream(tmp_path / "checkpoint", source, late(), wall_s=lambda: clock[0], idle_s=60.0, ends=False)
    stream.run()
    clock[0] += 10_000
    stream.restart()
    table = pa.table({"id": [2, 2, 2, 1], "ts": [11, 12, 13, 9], "v": [0, 0, 0, 60]})
    pq.write_table(table, source / "b.parquet")
    stream.run(1)
    assert stream.found.total("late") == 0, "1 was not given up before its event was read"
    assert not stream.found.tables
    clock[0] += 100
    stream.run(1)
    assert [(row[1], row[2]) for row in rows(stream.found.tables)] == [(1, 10), (1, 11)]


def test_one_clock_from_the_future_takes_nothing_from_the_others(tmp_path: Path) -> None:
    source = tmp_path / "events"
    source.mkdir()
    names = [1, 2, 7, 8, 9, 1, 2]
    times = [90_000, 90_000, 4_000_000_000, 4_000_000_001, 4_000_000_002, 90_010, 90_011]
    pq.write_table(pa.table({"id": names, "ts": times, "v": [60] * 7}), source / "a.parquet")
    patterns = wayeb_py.compile(STREAM + FAST, forget_after_s=3600)
    stream = DrivenStream(tmp_path / "checkpoint", source, patterns, wall_s=lambda: 100_000.0)
    stream.run(1)
    assert [row[1] for row in rows(stream.found.tables)] == [1, 2]
    assert stream.found.total("aged_entities") == 0


def test_an_event_that_comes_before_one_that_was_given_up_for_silence_is_late(tmp_path: Path) -> None:
    clock = [1_000_000.0]
    source = tmp_path / "events"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 1], "ts": [10, 11], "v": [60, 60]}), source / "a.parquet")
    stream = DrivenStream(tmp_path / "checkpoint", source, late(), wall_s=lambda: clock[0], idle_s=60.0, ends=False)
    stream.run()
    clock[0] += 100
    stream.run()
    pq.write_table(pa.table({"id": [1, 1], "ts": [5, 12], "v": [60, 60]}), source / "b.parquet")
    stream.run()
    assert [row["reason"] for row in stream.found.aside] == ["late"]
    assert stream.found.total("late") == 1
    assert stream.found.aside[0]["values"] == {"id": 1, "ts": 5, "v": 60}


def test_the_end_of_the_input_closes_what_is_open_and_the_stream_can_go_on_after_it(tmp_path: Path) -> None:
    source = tmp_path / "events"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 1], "ts": [0, 1], "v": [60, 60]}), source / "a.parquet")
    stream = DrivenStream(tmp_path / "checkpoint", source, late(), episodes=True)
    stream.run()
    assert [(row["start_seq"], row["end_seq"]) for t in stream.found.tables for row in t.to_pylist()] == [(0, 1)]
    n_batches = stream.found.n_batches
    stream.restart()
    stream.run()
    assert stream.found.n_batches == n_batches, "an end is an end, however often it is asked for"
    pq.write_table(pa.table({"id": [1, 1], "ts": [2, 3], "v": [60, 60]}), source / "b.parquet")
    stream.run()
    assert [(row["start_seq"], row["end_seq"]) for t in stream.found.tables for row in t.to_pylist()] == [
        (0, 1),
        (1, 3),
    ]


def test_an_entity_that_comes_back_after_being_forgotten_begins_a_new_word(tmp_path: Path) -> None:
    source = tmp_path / "events"
    source.mkdir()
    day = 86_400
    table = pa.table({"id": [1, 1, 1], "ts": [0, 31 * day, 31 * day + 1], "v": [60, 60, 60]})
    pq.write_table(table, source / "a.parquet")
    patterns = wayeb_py.compile(STREAM + FAST, forget_after_s=30 * day)
    stream = DrivenStream(tmp_path / "checkpoint", source, patterns)
    stream.run(1, stream.restart)
    assert [(row[3], row[5]) for row in rows(stream.found.tables)] == [(1, 0)]


@pytest.mark.parametrize("lost", [slice(0), slice(None, None, 2)], ids=["none is lost", "every second is lost"])
def test_an_entity_that_never_comes_back_leaves_the_state_with_its_episodes_closed(tmp_path: Path, lost: slice) -> None:
    source = tmp_path / "events"
    source.mkdir()
    n = 300
    table = pa.table({"id": np.arange(n) // 10, "ts": np.arange(n), "v": [60] * n})  # each for 10 s, then never again
    pq.write_table(table, source / "a.parquet")
    patterns = wayeb_py.compile(STREAM + FAST, forget_after_s=40)
    stream = DrivenStream(tmp_path / "checkpoint", source, patterns, episodes=True)

    def lose() -> None:
        for path in sorted((stream.folder / "snapshots").rglob("*.state"))[lost]:
            path.unlink()
        stream.restart()

    stream.run(17, lose)
    counts = stream.found.counts
    assert max(one["entities"] for one in counts) <= 8
    assert stream.found.total("new_entities") == 30
    assert stream.found.total("aged_entities") == 30 - counts[-1]["entities"]
    episodes = [(row["entity"], row["n_detections"]) for table in stream.found.tables for row in table.to_pylist()]
    assert sorted(episodes) == [(entity, 9) for entity in range(30)]


def test_a_state_that_a_killed_task_left_half_written_is_cleared_away(tmp_path: Path) -> None:
    states = snapshots.Snapshots(tmp_path)
    points = [snapshots.SnapshotPoint(snapshots.Epoch(), offset) for offset in (10, 200, 3000)]
    for point in points[::2]:
        states.write(0, "part=0", point, snapshots.Snapshot(b"state"))
    folder = tmp_path / "0" / "part=0"
    for offset in (10, 200, 3000):
        (folder / f".0-0-0-{offset}.state.17-abcd.tmp").write_bytes(b"st")
    states.collect(0, "part=0", points[1])
    assert sorted(path.name for path in folder.iterdir()) == [
        ".0-0-0-3000.state.17-abcd.tmp", "0-0-0-10.state", "0-0-0-3000.state",
    ], "somebody may be writing what comes after the point that is done"  # fmt: skip


def test_traps_have_the_names_of_places_and_catch_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="there is no place snapshot:befor:2"):
        failpoints.lay(tmp_path, "snapshot:befor:2")
    monkeypatch.setenv("WAYEB_FAILPOINTS", str(tmp_path))
    monkeypatch.setattr(failpoints, "_reached", Counter())
    killed: list[int] = []
    monkeypatch.setattr("wayeb_py.parallel.durable.failpoints.os.kill", lambda pid, number: killed.append(number))
    failpoints.lay(tmp_path, "snapshot:before:2")
    failpoints.reach("snapshot:before")
    failpoints.reach("snapshot:after")
    assert not killed
    failpoints.reach("snapshot:before")
    failpoints.reach("snapshot:before")
    assert killed == [signal.SIGKILL]
    assert [path.name for path in tmp_path.iterdir()] == [f"snapshot:before:2@{os.getpid()}"]
