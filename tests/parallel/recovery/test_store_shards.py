"""Shards of a stream whose checkpoint is in a store keep their states there, on one machine as on a cluster.

Pairs, a silence, a rule by entity, a rule by another key, and two streams: killed anywhere, moved to other machines,
and equal to one process. Spark is `SmallSpark` here; `test_store_shards_on_cluster.py` has a master, two workers and an
S3 server.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import wayeb_py
from tests.parallel.car_events import add_file, make_events
from tests.parallel.killing import BatchRun
from tests.parallel.recovery import test_run_objects
from tests.parallel.recovery.test_run_objects import CLUSTER, Killed, at, found_in, runs_in
from tests.parallel.small_spark import SmallSpark, small_stages
from tests.parallel.stream_parts.test_rules_by_key import of_one_process, told
from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery import run_objects
from wayeb_py.parallel.recovery.run_objects import EarlierRun, RunObjects, clear_before
from wayeb_py.parallel.recovery.snapshots import KEPT, Epoch, Snapshot, SnapshotPoint
from wayeb_py.parallel.recovery.store_checkpoint import StoreCheckpoint
from wayeb_py.parallel.sinks.sinks import StoreSink
from wayeb_py.parallel.stream.endpoints import open_spark_log
from wayeb_py.parallel.stream.plan import StreamPlan
from wayeb_py.parallel.stream.stored_shards import stored_state
from wayeb_py.parallel.stream.stored_shards.shard_states import BatchEnd, BatchSpan, ShardHead, ShardStates
from wayeb_py.parallel.stream.stored_shards.stored_state import StoredState
from wayeb_py.parallel.stream.stream import _has_stored_shards, stream
from wayeb_py.parallel.stream.task import StreamContext
from wayeb_py.parallel.wire import overflow
from wayeb_py.parallel.wire.overflow import Overflow

# No event is more than 8 s behind those before it, so none is late, whichever partition it comes to.
TEXT = """
stream cars  { key id      time ts in s  lateness 10 s  position lon, lat  attr k text  attr v number }
stream calls { key caller  time ts in s  lateness 10 s  attr k text  attr code number }
pattern Fast on cars := (v > 40){2,}  emit k
pattern Busy on calls := (code > 5){2,}  emit k
pattern Gone on cars := (v > 40) ; silence 60 s
pattern Meet for each pair a, b in cars within 1 km fresh 1 min := (distance(a, b) < 500 m and a.v > 20){2,}
rule Again := a: Fast, g: Gone where g.entity = a.entity and g.ts - a.ts in 0..90 s  emit a.entity as one
rule Answered := a: cars, c: calls where c.k = a.k and a.v < 10 and c.code > 5 and c.ts - a.ts in 0..20 s
    unless b: calls where b.k = a.k and b.code < 2 and b.ts - a.ts in 0..20 s
    emit a.id as one, c.caller as two
rule Both := m: Meet, f: Fast where f.entity = m.entity and m.ts - f.ts in 0..30 s  emit m.entity as one, m.other as two
"""
NAMES = {"Fast", "Busy", "Gone", "Meet", "Again", "Answered", "Both"}
MORE = "rule Called := c: calls, d: calls where c.k = d.k and c.code > 5 and d.code > 5 and d.ts - c.ts in 1..9 s "
MORE += "emit c.caller as one\n"
N = 240  # events of each stream
BATCH = 100


def make_streams(n: int = N, seed: int = 3) -> dict[str, pa.Table]:
    dice = np.random.default_rng(seed)

    def times() -> pa.Array:
        return pa.array(2 * np.arange(n) - dice.integers(0, 8, n))

    keys = [f"k{number}" for number in range(6)]
    cars = {
        "id": [f"car-{number}" for number in dice.integers(0, 14, n)], "ts": times(),
        "lon": 0.002 * dice.integers(0, 8, n), "lat": np.zeros(n), "k": dice.choice(keys, n),
        "v": dice.integers(0, 80, n).astype(np.float64),
    }  # fmt: skip
    calls = {
        "caller": dice.integers(0, 5, n), "ts": times(), "k": dice.choice(keys, n),
        "code": dice.integers(0, 10, n).astype(np.float64),
    }  # fmt: skip
    return {"cars": pa.table(cars), "calls": pa.table(calls)}


EVENTS = make_streams()


def add_files(folder: Path, name: str, start: int = 0, end: int = N) -> None:
    """A file of events for each stream; the cars' are in two partitions."""
    cars = EVENTS["cars"].slice(start, end - start)
    is_odd = pa.array([int(one.rpartition("-")[2]) % 2 == 1 for one in cars["id"].to_pylist()])
    parts = {"cars/part=0": cars.filter(pa.compute.invert(is_odd)), "cars/part=1": cars.filter(is_odd)}
    for place, events in (parts | {"calls": EVENTS["calls"].slice(start, end - start)}).items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        pq.write_table(events, folder / place / f".{name}.tmp")
        (folder / place / f".{name}.tmp").rename(folder / place / f"{name}.parquet")


def expected(n: int = N, text: str = TEXT) -> Counter[str]:
    tables = {name: table.slice(0, n) for name, table in EVENTS.items()}
    found, recogniser = of_one_process(wayeb_py.compile(text), tables)
    assert recogniser.counts.late == recogniser.counts.late_for_clock == 0
    return found


def found(store: StorePath) -> Counter[str]:
    return told(found_in(store).to_pylist())


def run(store: StorePath, events: Path, work: Path, master: str = CLUSTER, **options: Any) -> list[str]:
    """A start on a machine that has only what the store has; what it said."""
    said: list[str] = []
    patterns = wayeb_py.compile(options.pop("patterns", TEXT))
    with StoreCheckpoint(store / "checkpoint", options.pop("restart", None), work=work) as checkpoint:
        log = open_spark_log({name: [str(events / name)] for name in patterns.by_stream}, checkpoint, patterns)
        asked: dict[str, Any] = {
            "once": True, "final": True, "max_rows": BATCH, "aside": store / "out" / "_aside", "workers": 2,
        }  # fmt: skip
        spark: Any = SmallSpark(master)
        stream(spark, patterns, log, StoreSink(store / "out"), checkpoint, say=said.append, **(asked | options))
    return said


def killed(
    store: StorePath, events: Path, work: Path, point: str, nth: int, patch: pytest.MonkeyPatch, **options: Any
) -> None:
    """A run that dies when it comes to a place for the nth time."""

    def die() -> None:
        raise Killed

    with patch.context() as patched:
        at(point, nth, die, patched)
        with pytest.raises(Killed):
            run(store, events, work, final=False, **options)


def states_in(store: StorePath) -> dict[tuple[str, int], int]:
    """How many states there are of each run and shard."""
    root = store / "checkpoint" / "runs"
    parts = [path.key.relative_to(root.key).parts for path, _ in root.below()]
    return dict(Counter((own[0], int(own[3])) for own in parts if own[1:3] == ("snapshots", "shards")))


@pytest.fixture(autouse=True)
def stages(monkeypatch: pytest.MonkeyPatch) -> None:
    small_stages(monkeypatch)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    add_files(tmp_path / "in", "a", 0, N // 2)
    return tmp_path / "in"


def test_what_is_tested_has_pairs_silences_and_rules_by_two_keys_over_two_streams(
    store: StorePath, events: Path, tmp_path: Path
) -> None:
    said = "\n".join(run(store, events, tmp_path / "one"))
    assert "4 shards by entity, 4 parts by key and one shard that has all events" in said
    assert "`Answered` by a.k = c.k" in said
    assert found(store) == expected(N // 2)
    assert set(found_in(store)["pattern"].to_pylist()) == NAMES
    assert not (tmp_path / "one" / "spark" / "state").exists()


ALWAYS = ("read:yield", "shard:state", "part:state", "snapshot:after", "store:packed", "sink:after", "collect")
SELDOM = (
    "plan", "read:begin", "snapshot:before", "store:kept", "sink:before", "sink:inside", "counted", "commit",
)  # fmt: skip


@pytest.mark.parametrize("point", [*ALWAYS, *(pytest.param(one, marks=pytest.mark.soak) for one in SELDOM)])
def test_a_stream_that_dies_anywhere_goes_on_on_another_machine(
    store: StorePath, events: Path, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(store, events, tmp_path / "one", point, 2, monkeypatch, max_rows=BATCH // 3)
    killed(store, events, tmp_path / "two", point, 1, monkeypatch, max_rows=BATCH // 2, master="local[2]")
    add_files(events, "b", N // 2)
    run(store, events, tmp_path / "last")
    assert found(store) == expected()


def test_shards_by_entity_alone_keep_their_states_there_too(
    store: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"scheme": "partition", "workers": 1, "source_parallelism": 3, "idle_s": 3600.0}
    cars = make_events(400)
    add_file(cars.slice(0, 200), tmp_path / "in", "a")
    test_run_objects.killed(store, tmp_path / "in", tmp_path / "one", "sink:after", 2, monkeypatch, **options)
    add_file(cars.slice(200), tmp_path / "in", "b")
    test_run_objects.run(store, tmp_path / "in", tmp_path / "two", "local[2]", **options)
    assert {split for _, split in states_in(store)} == {0, 1}
    assert BatchRun(cars).differs(found_in(store)) is None


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("clear", [clear_before, lambda *given: None], ids=["notices", "does not notice"])
def test_a_run_that_was_taken_over_damages_no_state_of_the_one_that_goes_on(
    store: StorePath, events: Path, tmp_path: Path, nth: int, clear: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `test_run_objects`: the old run goes on after the new one has done all that there was."""
    monkeypatch.setattr(run_objects, "clear_before", clear)

    def take_over() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(failpoints, "reach", lambda point: None)
            run(store, events, tmp_path / "new", final=False, max_rows=BATCH + 17)

    with monkeypatch.context() as patched:
        at("sink:before", nth, take_over, patched)
        with pytest.raises(PassingError, match="another run has taken this checkpoint"):
            run(store, events, tmp_path / "old", final=False)
    add_files(events, "b", N // 2)
    run(store, events, tmp_path / "last")
    assert found(store) == expected()


def test_the_store_keeps_few_states_and_those_of_earlier_runs_go(
    store: StorePath, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        killed(store, events, tmp_path / f"machine-{number}", "sink:after", 2, monkeypatch, max_rows=30)
    assert len({run for run, _ in states_in(store)}) > 1
    run(store, events, tmp_path / "last", final=False, max_rows=60)
    add_files(events, "b", N // 2)
    run(store, events, tmp_path / "last", max_rows=60)
    states = states_in(store)
    assert len({run for run, _ in states}) == 1
    assert {split for _, split in states} == set(range(9))
    # The batch that was planned last, and the one that was done last, are cleared away after by the next.
    assert set(states.values()) <= {KEPT, KEPT + 1, KEPT + 2}
    assert runs_in(store).total() == sum(states.values()), "no other states"
    assert found(store) == expected()


def test_a_restart_reads_no_old_state(store: StorePath, events: Path, tmp_path: Path) -> None:
    run(store, events, tmp_path / "one", final=False)
    old = {run for run, _ in states_in(store)}
    for path, _ in (store / "out").below():
        path.unlink()
    add_files(events, "b", N // 2)
    run(store, events, tmp_path / "two", restart="beginning")
    assert not old & {run for run, _ in states_in(store)}
    assert found(store) == expected()


def test_patterns_are_exchanged_while_no_rule_meets_by_a_key_and_the_others_keep_their_state(
    store: StorePath, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that was planned before is repeated with the patterns of its plan."""
    keyed = TEXT[TEXT.index("rule Answered") : TEXT.index("rule Both")]
    killed(store, events, tmp_path / "one", "sink:before", 2, monkeypatch)
    run(store, events, tmp_path / "two", patterns=TEXT.replace(keyed, ""), final=False)
    add_files(events, "b", N // 2, N // 2 + 60)
    run(store, events, tmp_path / "three", patterns=TEXT.replace(keyed, ""), final=False)
    add_files(events, "c", N // 2 + 60)
    run(store, events, tmp_path / "four", patterns=TEXT + MORE)
    rows = found_in(store).to_pylist()
    others = NAMES - {"Answered"}
    wanted = Counter({row: n for row, n in expected().items() if "'Answered'" not in row})
    assert told([row for row in rows if row["pattern"] in others]) == wanted
    assert {"Answered", "Called"} <= {row["pattern"] for row in rows}


def test_what_is_too_much_for_spark_goes_by_objects(
    store: StorePath, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overflow, "PASSED_BYTES", 100)
    n_objects, clear = [], Overflow.clear

    def noted(self: Overflow) -> None:
        assert isinstance(self.folder, StorePath)
        n_objects.append(len(list(self.folder.below())))
        clear(self)

    monkeypatch.setattr(Overflow, "clear", noted)
    run(store, events, tmp_path / "one")
    assert max(n_objects) > 3
    assert runs_in(store, "overflow") == {}
    assert found(store) == expected(N // 2)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(lambda content: None, "is gone"), (lambda content: content[:-9] + bytes(9), "cannot be read: its checksum")],
    ids=["removed", "damaged"],
)
def test_a_state_that_is_lost_ends_the_stream(
    store: StorePath, events: Path, tmp_path: Path, spoil: Callable[[bytes], bytes | None], why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    killed(store, events, tmp_path / "one", "sink:after", 2, monkeypatch)
    for path, _ in (store / "checkpoint" / "runs").below():
        if re.search("snapshots/shards/(2|6)/", str(path)):
            content = spoil(path.read_bytes())
            path.unlink()
            if content is not None:
                path.upload(io.BytesIO(content))
    with pytest.raises(DataError, match=f"the state of shard 2 before this batch {why}") as raised:
        run(store, events, tmp_path / "two")
    assert "--restart beginning" in str(raised.value)


def test_states_that_an_earlier_run_puts_late_are_not_gone_on_from(store: StorePath) -> None:
    done = {"cars/part=0": 20, "calls/": 40}
    old = ShardStates(RunObjects(store, "000001-a").snapshot_files, "s")
    earlier = (EarlierRun("000001-a", done, Epoch()),)
    new = ShardStates(RunObjects(store, "000002-b", earlier).snapshot_files, "s")
    ends = [BatchEnd(SnapshotPoint(Epoch(), n), "x") for n in (30, 60, 90)]
    for end in ends:
        old.write(end, ShardHead(4, 2, "{}"), Snapshot(str(end.point.offset).encode()))
    assert [new.read(2, end)[1].saved for end in ends[:2]] == [b"30", b"60"]
    with pytest.raises(DataError, match="the state of shard 2 before this batch is gone"):
        new.read(2, ends[2])
    new.write(ends[2], ShardHead(4, 2, "{}"), Snapshot(b"new"))
    assert new.read(2, ends[2])[1].saved == b"new"
    with pytest.raises(DataError, match="cannot be read: it is not what its name says"):
        new.read(2, BatchEnd(ends[1].point, "with as many events, of other partitions"))


def test_a_state_is_read_only_where_no_recogniser_has_it(store: StorePath, monkeypatch: pytest.MonkeyPatch) -> None:
    states = ShardStates(RunObjects(store, "000001-a").snapshot_files, "s")
    ends = [BatchEnd(SnapshotPoint(Epoch(), n), "x") for n in (30, 60)]
    StoredState(states, 2, BatchSpan(None, ends[0])).update((4, 2, "{}", b"heard", b"saved"))
    reads: list[int] = []
    read = ShardStates.read

    def noted(self: ShardStates, split: int, end: BatchEnd) -> Any:
        reads.append(split)
        return read(self, split, end)

    monkeypatch.setattr(ShardStates, "read", noted)
    state = StoredState(states, 2, BatchSpan(*ends))
    assert state.exists
    assert state.get[:3] == (4, 2, "{}")
    assert reads == []
    assert tuple(map(bytes, state.get[3:])) == (b"heard", b"saved")
    assert reads == [2]
    stored_state._put.clear()  # another process
    assert StoredState(states, 2, BatchSpan(*ends)).get[:3] == (4, 2, "{}")
    assert reads == [2, 2]


def test_tasks_that_see_the_folder_find_all_but_states_there(store: StorePath, tmp_path: Path) -> None:
    """So one machine goes on replaying, whose data set is in the folder alone."""
    log = FolderLog(tmp_path / "in", tmp_path / "files.ndjson")
    near = StreamContext(log, tmp_path, False, False, "s", objects=RunObjects(store, "000001-a"))
    assert near.tasks_log is log
    assert near.overflow.folder == tmp_path / "overflow"
    assert near.shard_states is not None
    assert near.shard_states.folder == store / "runs" / "000001-a" / "snapshots"
    apart = replace(near, is_apart=True)
    assert apart.tasks_log is not log
    assert apart.overflow.folder == store / "runs" / "000001-a" / "overflow"


def test_shards_that_a_development_version_left_in_sparks_state_store_stay_on_one_machine(
    store: StorePath, tmp_path: Path
) -> None:
    before = StreamPlan("partition", "why", 1, 4)
    with StoreCheckpoint(store, work=tmp_path / "one") as checkpoint:
        assert not _has_stored_shards(before, before, checkpoint, is_apart=False)
        with pytest.raises(DataError, match="was begun with its shards in Spark's state store") as raised:
            _has_stored_shards(before, before, checkpoint, is_apart=True)
        assert _has_stored_shards(before, None, checkpoint, is_apart=False)
    assert "--master 'local" in str(raised.value)
