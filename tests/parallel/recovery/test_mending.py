"""A damaged checkpoint, a power cut: the stream continues and finds everything once, or says what is lost."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.crash_images import Recorder
from tests.parallel.small_spark import SmallSpark, _put
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.errors import DataError, WayebError
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.durable.sealed_files import seal, unseal
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.health.stream_view import Health
from wayeb_py.parallel.logs.back_pressure import Capacity
from wayeb_py.parallel.logs.folders import folder as folder_log
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.replay import ReplayLog
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.recovery import pattern_versions
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.recovery.ledger import LedgerContent, read_ledger
from wayeb_py.parallel.recovery.repair import put_right, survey
from wayeb_py.parallel.recovery.spark_log import SparkLog
from wayeb_py.parallel.sinks.sinks import Batch, ParquetSink
from wayeb_py.parallel.stream.stream import stream

PATTERNS = """stream s {
    key id
    time ts in s
    lateness 5 s
}
pattern Fast := (v > 50){2,}
pattern Swing := (v > 50) ; (v < 40) ; (v > 50) emit v
"""
N_EVENTS, ROWS_A_BATCH = 420, 70


def events(n: int = N_EVENTS) -> pa.Table:
    """The first of all events that ever come."""
    dice = np.random.default_rng(3)
    ids, speeds = dice.integers(0, 6, 1000), dice.integers(0, 100, 1000)
    return pa.table({"id": ids, "ts": np.arange(1000), "v": speeds}).slice(0, n)


def add(table: pa.Table, folder: Path, name: str) -> None:
    for part in range(2):
        (folder / f"part={part}").mkdir(parents=True, exist_ok=True)
        pq.write_table(table.filter(pa.array(table["id"].to_numpy() % 2 == part)), folder / f"part={part}" / name)


def forget() -> None:
    """Everything that a process remembers is gone."""
    folder_log._journals.clear()
    pattern_versions.load_version.cache_clear()
    pattern_versions.count_groups.cache_clear()


class Here(FolderLog):
    """A folder whose name stays when it is copied."""

    @property
    def name(self) -> str:
        return "folder:here"


class Counting:
    """Counts batches, as the command does."""

    def __init__(self, health: Health) -> None:
        self.health = health

    def began(self, query: object = None) -> None:
        self.health.started()

    def took(self, batch: Batch) -> None:
        self.health.count(batch.number, batch.counts)

    def timed(self, batch_s: float) -> None: ...
    def ended(self, summary: StreamSummary) -> None:
        """An observer without a listener."""


def run(folder: Path, say: Callable[[str], None] = lambda text: None) -> None:
    forget()
    with Checkpoint(folder / "checkpoint") as checkpoint:
        log = Here(folder / "events", checkpoint.journal)
        health = Health(log, checkpoint.folder / "health", Capacity(events=1000), frozen=True)
        stream(
            SmallSpark(),  # type: ignore[arg-type]
            wayeb_py.compile(PATTERNS), log, ParquetSink(folder / "out"), checkpoint,
            once=True, max_rows=ROWS_A_BATCH, observers=[Counting(health)], say=say,
        )  # fmt: skip


def expected(table: pa.Table) -> Counter[str]:
    found = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS)).feed(table).to_arrow()
    return Counter(with_ids(found)["detection_id"].to_pylist())


def found(folder: Path) -> Counter[str]:
    return Counter(pq.read_table(folder / "out")["detection_id"].to_pylist())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream that has run for some batches; the names of its files do not show the order of its events."""
    folder = tmp_path_factory.mktemp("ran")
    add(events().slice(0, 200), folder / "events", "b.parquet")
    run(folder)
    add(events().slice(200), folder / "events", "a.parquet")
    run(folder)
    assert found(folder) == expected(events())
    return folder


@pytest.fixture
def copied(ran: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copied"
    shutil.copytree(ran, folder)
    return folder


def damage(path: Path, harm: str) -> None:
    content = path.read_bytes()
    if harm == "deleted":
        path.unlink()
    elif harm == "emptied":
        path.write_bytes(b"")
    elif harm == "cut in half":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])


def goes_on(folder: Path) -> str | None:
    """Lets more events come and the stream continue: None if it found everything once, else its message."""
    more = events(N_EVENTS + 100)
    add(more.slice(N_EVENTS), folder / "events", "c.parquet")
    try:
        run(folder)
    except WayebError as error:
        return str(error)
    assert found(folder) == expected(more)
    return None


FILES = (
    "stream.json", "batches.ndjson", "files.ndjson", "spark/metadata", "spark/.metadata.crc", "spark/offsets/6",
    "spark/offsets/5", "spark/offsets/2", "spark/offsets/.6.crc", "spark/commits/6", "spark/commits/5",
    "spark/commits/.6.crc", "eras/000000.era", "eras/000000.patterns",
    "health/totals.json", "snapshots/0/part=0/last", "snapshots/0/part=0/first", "health/gauge.json", "files-done.txt",
)  # fmt: skip
SPARED = {"files.ndjson", "eras/000000.era", "health/totals.json"}  # no other file knows what is in them


@pytest.mark.parametrize("harm", ["deleted", "emptied", "cut in half", "flipped"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_a_checkpoint_that_is_damaged_is_made_again_or_named(copied: Path, name: str, harm: str) -> None:
    path = copied / "checkpoint" / name
    if path.name in ("first", "last"):
        states = sorted(path.parent.iterdir(), key=lambda state: int(state.stem.rpartition("-")[2]))
        path = states[-1 if path.name == "last" else 0]
    assert path.stat().st_size > 0, "there is something to damage"
    damage(path, harm)
    said = goes_on(copied)
    if said is not None:
        assert name in SPARED, said
        assert str(path) in said
        assert "hint" in said
        assert "Error" not in said
        assert found(copied) == expected(events()), "nothing was touched"


def test_everything_of_spark_that_is_deleted_is_made_again(copied: Path) -> None:
    shutil.rmtree(copied / "checkpoint" / "spark")
    assert goes_on(copied) is None


def test_what_is_made_again_is_told(copied: Path) -> None:
    said: list[str] = []
    run(copied, said.append)
    quiet = len(said)
    for name in ("stream.json", "spark/metadata", "spark/offsets/6", "spark/commits/6"):
        damage(copied / "checkpoint" / name, "emptied")
    said.clear()
    run(copied, said.append)
    assert len(said) == quiet + 4
    assert "stream.json was lost or damaged" in said[0]
    assert found(copied) == expected(events())


def test_a_checkpoint_from_before_the_ledger_still_works(copied: Path) -> None:
    (copied / "checkpoint" / "batches.ndjson").unlink()
    assert goes_on(copied) is None
    assert read_ledger(copied / "checkpoint" / "batches.ndjson").is_whole


@pytest.mark.parametrize("more", [(), ("health",), ("health", "snapshots"), ("snapshots",)])
def test_a_stream_never_begins_again_by_mistake(copied: Path, more: tuple[str, ...]) -> None:
    checkpoint = copied / "checkpoint"
    (checkpoint / "batches.ndjson").unlink()
    for name in ("spark", *more):
        shutil.rmtree(checkpoint / name)
    said = goes_on(copied)
    assert said is not None
    assert "which batches are done is not known any more" in said
    assert "--restart beginning" in said
    assert found(copied) == expected(events())


@pytest.mark.parametrize("n_lost", [1, 2, 3])
def test_output_of_unknown_batches_is_put_away_and_found_again(copied: Path, n_lost: int) -> None:
    checkpoint, said = copied / "checkpoint", list[str]()
    (checkpoint / "batches.ndjson").unlink()
    for number in range(7 - n_lost, 7):
        for kind in ("offsets", "commits"):
            damage(checkpoint / "spark" / kind / str(number), "emptied")
    run(copied, said.append)
    assert found(copied) == expected(events())
    (place,) = (copied / "out").glob("_superseded-*")
    assert len(list(place.iterdir())) == n_lost
    assert any(str(place) in text for text in said)


def test_a_checkpoint_that_is_restored_from_an_older_copy_finds_again_what_came_since(tmp_path: Path) -> None:
    add(events().slice(0, 150), tmp_path / "events", "b.parquet")
    run(tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    add(events().slice(150), tmp_path / "events", "a.parquet")
    run(tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "copy").rename(tmp_path / "checkpoint")
    run(tmp_path)
    assert found(tmp_path) == expected(events())
    (place,) = (tmp_path / "out").glob("_superseded-*")
    assert len(list(place.iterdir())) == 4


def test_more_lost_batches_than_states_are_kept_are_refused(copied: Path) -> None:
    checkpoint = copied / "checkpoint"
    (checkpoint / "batches.ndjson").unlink()
    for number in range(3, 7):
        damage(checkpoint / "spark" / "offsets" / str(number), "deleted")
    said = goes_on(copied)
    assert said is not None
    assert "what was planned after batch 2 is not known any more" in said
    assert found(copied) == expected(events())


def test_the_notes_of_another_stream_are_refused(copied: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    add(events(300), other / "events", "x.parquet")
    run(other)
    checkpoint = copied / "checkpoint"
    shutil.rmtree(checkpoint / "spark")
    shutil.copytree(other / "checkpoint" / "spark", checkpoint / "spark")
    said = goes_on(copied)
    assert said is not None
    assert "the two are not of the same stream" in said
    shutil.copy(other / "checkpoint" / "batches.ndjson", checkpoint / "batches.ndjson")
    said = goes_on(copied)
    assert said is not None
    assert "the ledger is of the stream" in said
    assert found(copied) == expected(events())


def test_a_journal_that_would_be_made_again_in_another_order_is_refused(copied: Path) -> None:
    """By their names the files would come in another order than the one in which they were read."""
    (copied / "checkpoint" / "files.ndjson").unlink()
    said = goes_on(copied)
    assert said is not None
    assert "with it the order of the files" in said
    assert found(copied) == expected(events())


# Power cuts.


class PowerCut(BaseException):
    """Nothing is done after it."""


PLACES = (
    "plan", "read:begin", "read:yield", "snapshot:before", "snapshot:after", "sink:before", "sink:inside",
    "sink:after", "counted", "commit",
)  # fmt: skip


@pytest.mark.parametrize("names_stay", [True, False], ids=["names stay", "names go"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("time", [1, 3])
def test_a_power_cut_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, time: int, names_stay: bool
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    add(events(), before / "events", "a.parquet")
    recorder = Recorder(monkeypatch)
    n_reached = 0

    def reach(point: str) -> None:
        nonlocal n_reached
        n_reached += point == place
        if point == place and n_reached == time:
            n_reached += 1
            for name in ("checkpoint", "out"):
                if (before / name).exists():
                    recorder.image(before / name, after / name, names_stay)
            raise PowerCut

    monkeypatch.setattr(failpoints, "reach", reach)
    with pytest.raises(PowerCut):
        run(before)
    monkeypatch.undo()
    shutil.copytree(before / "events", after / "events")
    run(after)
    assert found(after) == expected(events())


def counts(path: Path) -> dict[str, Any]:
    return unseal(path.read_bytes())


def test_counters_go_on_after_what_spark_knew_was_lost(copied: Path) -> None:
    before = counts(copied / "checkpoint" / "health" / "totals.json")
    shutil.rmtree(copied / "checkpoint" / "spark")
    assert goes_on(copied) is None
    after = counts(copied / "checkpoint" / "health" / "totals.json")
    rows = [sum(totals["sums"]["rows"].values()) for totals in (before, after)]
    assert rows == [N_EVENTS, N_EVENTS + 100]


def test_a_seal_shows_every_flipped_bit() -> None:
    text = seal(json.dumps({"batch": 7, "sums": {"a": 1.5}})).encode()
    assert unseal(text) == {"batch": 7, "sums": {"a": 1.5}}
    for place in range(len(text) * 8):
        flipped = bytearray(text)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises((ValueError, TypeError)):
            unseal(bytes(flipped))


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        *itertools.product(["replay.json", "0.arrow", "0.due.npy"], ["deleted", "emptied", "cut in half"]),
        ("replay.json", "flipped"),  # a copy of the data set is as safe as the data set
    ],
)
def test_a_replay_whose_store_is_damaged_is_stored_again(tmp_path: Path, name: str, harm: str) -> None:
    pq.write_table(events(50), tmp_path / "a.parquet")
    wanted = Wanted.from_needs(wayeb_py.compile(PATTERNS).needs, "s")
    store_events([tmp_path / "a.parquet"], wanted, tmp_path / "store")
    before = ReplayLog(tmp_path / "store").identity()
    damage(tmp_path / "store" / name, harm)
    stored = store_events([tmp_path / "a.parquet"], wanted, tmp_path / "store")
    assert stored.rows == (50,)
    assert stored.is_whole(tmp_path / "store")
    assert ReplayLog(tmp_path / "store").identity() == before
    damage(tmp_path / "store" / "replay.json", "deleted")
    pq.write_table(events(60), tmp_path / "a.parquet")
    store_events([tmp_path / "a.parquet"], wanted, tmp_path / "store")
    assert ReplayLog(tmp_path / "store").identity() != before, "so that the checkpoint is refused"


# The state of shards, which only Spark has.


def offset(number: int) -> str:
    mark = {"at": {"": 10 * number + 10}, "era": 0, "tick": 0, "ended_at": 0, "quiet": False, "clock_s": 1}
    return f"v1\n{json.dumps({'conf': {}})}\n{json.dumps(mark)}"


def shards_of(folder: Path, n_batches: int, whole: tuple[int, ...] = ()) -> SparkLog:
    """What Spark has of two shards after `n_batches` batches, all done."""
    for number in range(n_batches):
        _put(folder / "offsets" / str(number), offset(number))
        _put(folder / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')
        for shard in range(2):
            _put(folder / "state" / "0" / str(shard) / f"{number + 1}.changelog", f"change {number}" * 99)
            if number + 1 in whole:
                _put(folder / "state" / "0" / str(shard) / f"{number + 1}.zip", f"whole {number}" * 99)
    return SparkLog(folder)


@pytest.mark.parametrize("harm", ["deleted", "emptied", "cut in half", "flipped"])
@pytest.mark.parametrize(
    ("name", "last", "is_done"),
    [("8.changelog", 7, False), ("7.changelog", 6, False), ("5.zip", 7, True), ("3.changelog", 7, True)],
)
def test_damaged_state_of_a_shard_takes_back_the_batches_that_it_is_needed_for(
    tmp_path: Path, name: str, harm: str, last: int, is_done: bool
) -> None:
    spark = shards_of(tmp_path, 8, whole=(5,))
    damage(tmp_path / "state" / "0" / "1" / name, harm)
    known = survey(spark, LedgerContent(), begun=7, shards=2)
    assert (known.last, known.is_done) == (last, is_done)
    put_right(spark, LedgerContent(), known)
    assert spark.batches("offsets")[-1] == last
    assert spark.batches("commits")[-1] == (last if is_done else last - 1)
    assert max(version for version, _ in spark.states()) == (last + 1 if is_done else last)


@pytest.mark.parametrize("names", [["4.changelog"], [f"{n}.changelog" for n in range(1, 9)]])
def test_state_that_is_lost_for_longer_is_named(tmp_path: Path, names: list[str]) -> None:
    spark = shards_of(tmp_path, 8)
    for name in names:
        damage(tmp_path / "state" / "0" / "1" / name, "deleted")
    with pytest.raises(DataError, match="the state of the shards is gone") as raised:
        survey(spark, LedgerContent(), begun=7, shards=2)
    assert "--restart now" in str(raised.value)
    assert spark.batches("offsets") == list(range(8))
