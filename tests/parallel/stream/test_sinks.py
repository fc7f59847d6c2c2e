"""Where a stream's detections go, and what its checkpoint remembers."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import wayeb_py
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.errors import DataError
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.recovery.checkpoint import Checkpoint, Manifest, begin, changes, digest_of, refuse_other
from wayeb_py.parallel.sinks.sinks import AsideFolder, Batch, FunctionSink, NdjsonSink, ParquetSink
from wayeb_py.parallel.stream.endpoints import aside_folder, open_log, open_sink, refuse_mixed_up

SOURCE = "stream s { key id time ts in s }\npattern P := (v > 5)\npattern Q := (v > 7)\n"
PATTERNS = wayeb_py.compile(SOURCE)
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("v", pa.float64())])


def found(*entities: int) -> pa.Table:
    names = ["P"] * len(entities)
    table = pa.table({"pattern": names, "entity": entities, "ts": range(len(entities)), "seq": range(len(entities))})
    return with_ids(table)


def test_a_batch_that_comes_again_replaces_itself(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out")
    sink.open("abcd", is_new=True)
    sink.write(Batch(0, found(1, 2)))
    sink.write(Batch(1, found(3)))
    again = ParquetSink(tmp_path / "out")
    again.open("abcd", is_new=False)
    again.write(Batch(1, found(3)))
    again.write(Batch(2))
    assert sorted(pq.read_table(tmp_path / "out")["entity"].to_pylist()) == [1, 2, 3]
    assert len(list((tmp_path / "out").iterdir())) == 2, "a batch that found nothing leaves nothing"


def test_what_a_killed_run_left_behind_is_never_read_and_goes_at_the_next_start(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out")
    sink.open("abcd", is_new=True)
    sink.write(Batch(0, found(1)))
    half = tmp_path / "out" / ".detections-abcd-000000001.parquet.77-beef.tmp"
    half.write_bytes(b"PAR1 and no more")
    AsideFolder(tmp_path / "out" / "_aside").write("abcd", 0, b'{"reason": "late"}\n')
    assert ds.dataset(tmp_path / "out").to_table()["entity"].to_pylist() == [1]
    ParquetSink(tmp_path / "out").open("abcd", is_new=False)
    assert not half.exists()


def test_a_new_stream_does_not_mix_with_the_output_of_another(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    sink.open("abcd", is_new=True)
    sink.write(Batch(0, found(1)))
    with pytest.raises(DataError, match="already holds Parquet files") as raised:
        ParquetSink(tmp_path).open("other", is_new=True)
    assert "name another folder" in str(raised.value)


def test_lines_and_functions_get_the_same_rows() -> None:
    stream = io.BytesIO()
    taken: list[tuple[int, list[int]]] = []
    sinks = (
        NdjsonSink(stream),
        FunctionSink(lambda table, number: taken.append((number, table["entity"].to_pylist()))),
    )
    for sink in sinks:
        sink.open("abcd", is_new=True)
        sink.write(Batch(0, found(1, 2)))
        sink.write(Batch(1))
        sink.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["entity"] for line in lines] == [1, 2]
    assert taken == [(0, [1, 2])]
    assert all(len(line["detection_id"]) == 32 for line in lines)


def test_an_id_names_a_detection_and_nothing_else() -> None:
    base = {
        "pattern": ["P"],
        "place": [None],
        "entity": ["e"],
        "ts": [7],
        "seq": [3],
        "start_ts": [5],
        "start_seq": [1],
    }
    table = pa.table(base | {"v": [1.0]})
    (one,) = with_ids(table)["detection_id"].to_pylist()
    dictionary = pa.table({"pattern": pa.array(["P"]).dictionary_encode()} | {k: base[k] for k in list(base)[1:]})
    assert with_ids(dictionary)["detection_id"].to_pylist() == [one], "neither encodings nor emitted columns enter"
    others = {
        with_ids(pa.table(base | {name: [value]}))["detection_id"][0].as_py()
        for name, value in (("pattern", "Q"), ("place", "x"), ("entity", "f"), ("ts", 8), ("seq", 4), ("start_seq", 2))
    }
    assert len(others | {one}) == 7


def test_rows_set_aside_are_replaced_with_their_batch(tmp_path: Path) -> None:
    aside = AsideFolder(tmp_path / "aside")
    aside.write("abcd", 0, b"")
    assert not (tmp_path / "aside").exists()
    aside.write("abcd", 1, b"{}\n")
    aside.write("abcd", 1, b"{}\n{}\n")
    (path,) = (tmp_path / "aside").iterdir()
    assert path.read_bytes() == b"{}\n{}\n"


def test_outputs_are_told_apart_by_their_names(tmp_path: Path) -> None:
    assert isinstance(open_sink("-", False), NdjsonSink)
    assert isinstance(open_sink(str(tmp_path / "found"), True), ParquetSink)
    assert aside_folder("-") is None
    assert aside_folder("out") == Path("out/_aside")
    with pytest.raises(DataError, match="looks like a file"):
        open_sink(str(tmp_path / "found.parquet"), False)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        open_sink(str(tmp_path / "file"), False)


# Checkpoints.


@pytest.mark.parametrize(
    ("source", "out", "checkpoint", "said"),
    [
        ("in", "ftp://bucket/found", "state", "`ftp://…` is an address of a kind that is not read or written"),
        ("in", "found", "hdfs://name/state", "nothing can be kept at hdfs://"),
        ("in", "in/found", "state", "--out `in/found` is in the source `in`"),
        ("folder:in", "./in/", "state", "--out `./in/` is in the source `in`"),
        ("in", "found", "in/state", "--checkpoint `in/state` is in the source"),
        ("replay:old,in", "in/found", "state", "--out `in/found` is in the source `in`"),
        ("in", "state/found", "state", "--out `state/found` is in the checkpoint"),
        ("kafka://a/t", "kafka://b,a:9092/t", "state", "the topic is source and destination"),
    ],
)
def test_a_stream_does_not_read_what_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, out: str, checkpoint: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=re.escape(said)) as refused:
        refuse_mixed_up([source], out, Path(checkpoint))
    assert refused.value.hint
    assert not list(tmp_path.iterdir())


def test_what_does_not_get_mixed_up_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not raise, and a folder that is refused elsewhere shows that it looked."""
    monkeypatch.chdir(tmp_path)
    refuse_mixed_up(["in", "kafka://a/t"], "kafka://a/found", Path("state"), Path("aside"))
    refuse_mixed_up(["in"], "in/_found", Path("in/.state"))
    refuse_mixed_up(["in"], "-", Path("inner"))
    with pytest.raises(DataError, match="is in the source"):
        refuse_mixed_up(["in"], "in/found", Path("in/.state"))


def test_a_start_that_failed_leaves_no_files_that_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stray = tmp_path / "in" / "stray.parquet"
    pq.write_table(pa.table({"other": [1]}), stray)
    with Checkpoint(tmp_path / "state") as checkpoint:
        log = open_log(str(tmp_path / "in"), checkpoint, PATTERNS)
        assert log.latest() == {"": 1}
    stray.unlink()
    with Checkpoint(tmp_path / "state") as checkpoint:
        assert open_log(str(tmp_path / "in"), checkpoint, PATTERNS).latest() == {}
        checkpoint.write(begin("folder:in", PATTERNS, episodes=False))
        pq.write_table(pa.table({"other": [1]}), stray)
        assert log.latest() == {"": 1}
        stray.unlink()
        assert open_log(str(tmp_path / "in"), checkpoint, PATTERNS).latest() == {"": 1}


def test_a_replay_is_on_the_disk_before_its_record_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("id,ts,v\n1,1,6\n")
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    store_events([tmp_path / "a.csv"], Wanted.from_needs(PATTERNS.needs, "s"), tmp_path / "store")
    (record,) = (place for place, name in enumerate(synced) if name.startswith(".replay.json"))
    assert {"0.arrow", "0.due.npy"} <= set(synced[:record])
    assert tmp_path.name in synced[:record], "the folder's own name is on the disk too"


def test_a_checkpoint_serves_one_stream_at_a_time(tmp_path: Path) -> None:
    with Checkpoint(tmp_path), pytest.raises(DataError, match="another stream is using this checkpoint"):
        Checkpoint(tmp_path)
    Checkpoint(tmp_path).close()


def test_a_checkpoint_of_another_stream_is_refused_in_one_message_with_the_choice(tmp_path: Path) -> None:
    known = begin("folder:/a", PATTERNS, episodes=False)
    other = wayeb_py.compile(SOURCE.replace("key id", "key mmsi"))
    with pytest.raises(DataError) as raised:
        refuse_other(known, begin("kafka://h:1/t", other, episodes=True), tmp_path)
    message = str(raised.value)
    assert "the source was folder:/a, and is kafka://h:1/t; the key was id, and is mmsi" in message
    assert "--episodes was False, and is True" in message
    assert "--restart beginning" in message
    assert "--restart now" in message


def test_a_topic_is_the_same_whatever_its_brokers_are_called_and_another_once_it_is_made_anew(tmp_path: Path) -> None:
    ids = {"the cluster of topic t": "C", "the id of topic t": "1"}
    before, known = (begin("kafka://h:1/t", PATTERNS, False, identity) for identity in ({}, ids))
    now = begin("kafka://h:1,g:2/t", PATTERNS, False, ids)
    refuse_other(before, now, tmp_path)
    refuse_other(known, now, tmp_path)
    refuse_other(known, begin("kafka://g:2/t", PATTERNS, False), tmp_path)  # whose brokers give no ids
    with pytest.raises(DataError, match="the id of topic t was 1, and is 2"):
        refuse_other(known, begin("kafka://h:1/t", PATTERNS, False, ids | {"the id of topic t": "2"}), tmp_path)
    with pytest.raises(DataError, match="the cluster of topic t was C, and is D"):
        refuse_other(known, begin("kafka://h:1/t", PATTERNS, False, {"the cluster of topic t": "D"}), tmp_path)
    with pytest.raises(DataError, match="the source was kafka://h:1/t, and is kafka://h:1/u"):
        refuse_other(known, begin("kafka://h:1/u", PATTERNS, False), tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"version": 99}', "has version 99, and this release reads version 2"),
        ("{", "cannot be read"),
        ('{"version": 2}', "cannot be read"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_says_so_and_offers_the_choice(
    tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "stream.json").write_text(content)
    with Checkpoint(tmp_path) as checkpoint, pytest.raises(DataError, match=said) as raised:
        checkpoint.read()
    assert "--restart beginning" in str(raised.value)


def test_a_restart_gives_up_everything_but_what_was_set_aside(tmp_path: Path) -> None:
    kept_in(tmp_path)
    with Checkpoint(tmp_path, "now") as checkpoint:
        assert checkpoint.read() is None
        checkpoint.write(Manifest("new", "folder", "id", "ts", "s", episodes=False))
    assert {path.name for path in tmp_path.iterdir()} == {"aside", "lock", "stream.json"}
    assert "new" in (tmp_path / "stream.json").read_text()


def test_a_restart_that_never_began_gives_up_nothing(tmp_path: Path) -> None:
    kept_in(tmp_path)
    with Checkpoint(tmp_path, "beginning") as checkpoint:
        assert checkpoint.read() is None
        (tmp_path / "snapshots" / "0").mkdir(parents=True)
        (tmp_path / "snapshots" / "0" / "new").touch()
    assert_kept(tmp_path)


@pytest.mark.parametrize("moved", [["stream.json"], ["stream.json", "snapshots"]])
def test_a_restart_that_is_killed_while_it_puts_things_away_gives_up_nothing(tmp_path: Path, moved: list[str]) -> None:
    kept_in(tmp_path)
    (tmp_path / "before").mkdir()
    for name in moved:
        (tmp_path / name).rename(tmp_path / "before" / name)
    assert_kept(tmp_path)


def assert_kept(folder: Path) -> None:
    with Checkpoint(folder) as checkpoint:
        known = checkpoint.read()
    assert known is not None
    assert known.stream_id == "old"
    assert {path.name for path in folder.iterdir()} == {"aside", "lock", "snapshots", "spark", "stream.json"}
    assert [path.name for path in (folder / "snapshots" / "0").iterdir()] == ["old"]


def kept_in(folder: Path) -> None:
    for name in ("spark/offsets", "snapshots/0", "aside"):
        (folder / name).mkdir(parents=True)
    (folder / "aside" / "a.ndjson").write_text("{}\n")
    (folder / "snapshots" / "0" / "old").touch()
    with Checkpoint(folder) as checkpoint:
        checkpoint.write(Manifest("old", "folder", "id", "ts", "s", episodes=False))


def test_a_checkpoint_of_another_stream_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    with Checkpoint(tmp_path) as checkpoint, pytest.raises(DataError, match="not one of wayeb"):
        checkpoint.read()


def test_an_era_ends_when_patterns_settings_or_knowledge_change(tmp_path: Path) -> None:
    geography = tmp_path / "ports.csv"
    geography.write_text("name,lon,lat\nBrest,-4.5,48.4\n")
    text = (
        'stream s {\n  key id\n  time ts in s\n  position lon, lat\n}\npoints port from "ports.csv"\n'
        "pattern Near := (near(port, 1 km))\n"
    )
    (tmp_path / "a.sre").write_text(text)

    def digest(lateness_s: float | None = None) -> str:
        return digest_of(wayeb_py.compile(tmp_path / "a.sre", lateness_s=lateness_s), [["Near"]], SCHEMA)

    first = digest()
    assert digest() == first
    assert digest(lateness_s=5) != first
    geography.write_text("name,lon,lat\nBrest,-4.5,48.5\n")
    assert digest() != first


def test_what_changed_is_told_by_name() -> None:
    version = {"patterns": {p.name: p.fingerprint for p in PATTERNS.compiled}}
    now = wayeb_py.compile(SOURCE.replace("v > 7", "v > 8").replace("pattern P", "pattern R"))
    assert changes(version, now) == "new: R; changed: Q; gone: P"
    assert changes(version, PATTERNS) is None


def test_a_summary_adds_up_what_batches_counted() -> None:
    counts = {
        "partition": "a", "group": 0, "rows": 5, "events": 4, "detections": {"P": 2}, "episodes": 0, "late": 1,
        "duplicates": 0, "bad": {"no time": 1}, "unreadable": {}, "cleaned": {}, "entities": 3, "new_entities": 1,
        "state_bytes": 100, "first_s": 1.0, "last_s": 9.0,
    }  # fmt: skip
    summary = StreamSummary()
    summary.take(Batch(0, counts=[counts, counts | {"partition": "b", "last_s": None}]))
    summary.take(Batch(1, counts=[counts | {"entities": 4, "last_s": 7.0}]))
    told = summary.to_json()
    assert (told["batches"], told["rows"], told["events"], told["late"]) == (2, 15, 12, 3)
    assert (told["entities"], told["state_bytes"], told["last_event_s"]) == (7, 200, 9.0)
    assert (told["detections"], told["bad"]) == ({"P": 6}, {"no time": 3})
