"""Events, places, facts and detections in a store: an S3 server (moto's), Google's store (gcp-storage-emulator) and a
real HDFS (Hadoop's minicluster), all on loopback.

A run over addresses finds what the run over the same files on a disk finds, and an object is there whole or not at all.
"""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from tests.cli.ended_command import Wayeb
from tools.gcs_server import GcsServer
from wayeb_py.cli.exit_codes import DATA_FAULT, PASSING_FAULT, USAGE_FAULT
from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.discover import find_files
from wayeb_py.files.formats.lines import read_lines
from wayeb_py.files.output.whole_file import whole_file, write_whole
from wayeb_py.files.read import open_events
from wayeb_py.files.stores import StorePath, is_address, located
from wayeb_py.patterns import compile_patterns

EVENTS = pa.table(
    {
        "key": pa.array(["a", "a", "b", "a", "b"]),
        "ts": pa.array([0, 60, 70, 120, 130], pa.timestamp("s")),
        "speed": pa.array([60.0, 10.0, 70.0, 80.0, 90.0]),
        "lon": pa.array([0.0, 0.5, 1.0, 1.5, 2.0]),
        "lat": pa.array([0.0, 0.0, 0.0, 0.0, 0.0]),
        "plate": pa.array(["p1", "p1", "p2", "p1", "p2"]),
    }
)
STREAM = "stream s { key key  time ts  position lon, lat }\n"
FAST = STREAM + "pattern Fast := (speed > 50)\n"


def put(path: StorePath, file: Path) -> str:
    with file.open("rb") as source:
        path.upload(source)
    return str(path)


def written(folder: Path, name: str) -> Path:
    """The events in the format that the name says."""
    path = folder / name
    WRITERS[name.partition(".")[2]](path)
    return path


def _write_lines(path: Path) -> None:
    rows = EVENTS.set_column(1, "ts", EVENTS.column("ts").cast(pa.string())).to_pylist()
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


WRITERS: dict[str, Callable[[Path], object]] = {
    "parquet": lambda path: pq.write_table(EVENTS, path, row_group_size=2),
    "arrow": lambda path: pyarrow.feather.write_feather(EVENTS, path, compression="uncompressed"),
    "csv": lambda path: pyarrow.csv.write_csv(EVENTS, path),
    "ndjson": _write_lines,
    "ndjson.gz": _write_lines,
}


@pytest.mark.parametrize("name", ["e.parquet", "e.arrow", "e.csv", "e.ndjson", "e.ndjson.gz"])
def test_a_file_in_a_store_gives_what_it_gives_on_a_disk(
    any_store: StorePath, tmp_path: Path, wayeb: Wayeb, name: str
) -> None:
    file = written(tmp_path, name)
    (tmp_path / "p.sre").write_text(FAST)
    address = put(any_store / "in" / name, file)
    on_disk = wayeb("run", "p.sre", "--data", str(file), "--out", "disk.parquet", "--quiet")
    in_store = wayeb("run", "p.sre", "--data", address, "--out", str(any_store / "out.parquet"), "--quiet")
    assert (on_disk.code, in_store.code) == (0, 0), in_store.err
    (tmp_path / "back.parquet").write_bytes((any_store / "out.parquet").read_bytes())
    found = pq.read_table(tmp_path / "back.parquet")
    assert found.equals(pq.read_table(tmp_path / "disk.parquet"))
    assert found.num_rows == 4


def test_folders_and_globs_name_the_files_that_they_name_on_a_disk(any_store: StorePath, tmp_path: Path) -> None:
    file = written(tmp_path, "e.csv")
    names = [
        "day=1/a.csv", "day=1/_SUCCESS", "day=2/b.csv", "day=2/.hidden.csv", "day=2/deep/c.csv", "day=2/notes.txt",
        "z.csv.aside.ndjson",
    ]  # fmt: skip
    for name in names:
        put(any_store / "t" / name, file)
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_bytes(file.read_bytes())
    for asked in ("t", "t/day=2", "t/*/*.csv", "t/**/*.csv", "t/day=*", "t/day=[2]/b.csv", "t/day=1/?.csv"):
        on_disk = find_files([tmp_path / asked])
        in_store = find_files([str(any_store / asked)])
        assert [(_inside(f.path, f"{tmp_path}/"), f.partitions, f.n_bytes) for f in on_disk] == [
            (_inside(f.path, f"{any_store}/"), f.partitions, f.n_bytes) for f in in_store
        ], asked


def _inside(path: str, root: str) -> str:
    return path.removeprefix(root)


def test_places_and_facts_come_from_a_store_where_the_user_allows_it(
    any_store: StorePath, tmp_path: Path, wayeb: Wayeb
) -> None:
    (tmp_path / "ports.csv").write_text("name,lon,lat\nhome,0,0\n")
    (tmp_path / "listed.csv").write_text("plate\np2\n")
    ports = put(any_store / "ports.csv", tmp_path / "ports.csv")
    listed = put(any_store / "l.csv", tmp_path / "listed.csv")
    written(tmp_path, "e.csv")
    (tmp_path / "p.sre").write_text(
        STREAM + f'points port from "{ports}"\nfacts listed (plate) from "{listed}"\n'
        "pattern AtHome := (near(port, 1 km))\npattern Moves := (speed > 50) emit plate\n"
        "rule ListedMoves := m: Moves, l: listed where m.plate = l.plate\n"
    )
    refused = wayeb("run", "p.sre", "--data", "e.csv", "--out", "out.csv", "--quiet")
    assert refused.code != 0
    assert "outside the folder of the pattern file" in refused.err
    ended = wayeb("run", "p.sre", "--data", "e.csv", "--out", "out.csv", "--quiet", "--outside")
    assert ended.code == 0, ended.err
    found = pa.csv.read_csv(tmp_path / "out.csv").column("pattern").to_pylist()
    assert (found.count("AtHome"), found.count("ListedMoves")) == (1, 2)


def test_an_object_appears_when_it_is_complete_and_a_failure_leaves_the_old_one(any_store: StorePath) -> None:
    place = any_store / "x.csv"
    with whole_file(place) as whole:
        whole.write(b"first")
        assert not place.exists()
    assert place.read_bytes() == b"first"
    write_whole(place, b"again")
    assert place.read_bytes() == b"again"
    with pytest.raises(RuntimeError, match="half way"):
        _write_half(place)
    with pytest.raises(RuntimeError, match="half way"):
        place.upload(HalfRead())
    gc.collect()  # what is left of the upload may not complete it
    assert [(str(path), size) for path, size in any_store.below()] == [(str(place), 5)]
    assert place.read_bytes() == b"again"


def _write_half(place: StorePath) -> None:
    with whole_file(place) as whole:
        whole.write(b"second")
        raise RuntimeError("half way")


class HalfRead(io.BytesIO):
    """A file of this machine of which a part can be read: the disk fails, or the user interrupts."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise RuntimeError("half way")
        self.seek(1)
        return b"x" * (6 << 20)


def test_the_rows_set_aside_and_the_old_side_file_follow_the_output(
    any_store: StorePath, tmp_path: Path, wayeb: Wayeb
) -> None:
    (tmp_path / "p.sre").write_text(FAST.replace("time ts", "time ts in s"))
    (tmp_path / "bad.csv").write_text("key,ts,speed,lon,lat\na,0,60,0,0\na,x,70,0,0\n")
    (tmp_path / "good.csv").write_text("key,ts,speed,lon,lat\na,0,60,0,0\n")
    out = any_store / "night.csv"
    assert wayeb("run", "p.sre", "--data", "bad.csv", "--out", str(out), "--quiet").code == 0
    assert b'"row": 3' in (any_store / "night.csv.aside.ndjson").read_bytes()
    assert wayeb("run", "p.sre", "--data", "good.csv", "--out", str(out), "--quiet").code == 0
    assert not (any_store / "night.csv.aside.ndjson").exists()


def test_an_output_that_would_replace_its_own_input_is_refused(
    any_store: StorePath, tmp_path: Path, wayeb: Wayeb
) -> None:
    (tmp_path / "p.sre").write_text(FAST)
    address = put(any_store / "e.csv", written(tmp_path, "e.csv"))
    ended = wayeb("run", "p.sre", "--data", address, "--out", address)
    assert ended.code != 0
    assert "would replace its own input" in ended.err


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("s3://BUCKET/none.csv", "there is no such file or folder"),
        ("s3://no-such-bucket-of-ours/x.csv", "there is no such file or folder"),
        ("s3://BUCKET/none*.csv", "there are no event files"),
        ("s3://", "names no bucket"),
        ("ftp://host/x.csv", "`ftp://…` is an address of a kind that is not read or written"),
        ("file:///tmp/x.csv", "name the path without file://"),
        ("s3://key:secret@bucket/x.csv", "an address with credentials in it is not used"),
    ],
)
def test_an_address_that_leads_nowhere_gets_one_message(
    bucket: StorePath, tmp_path: Path, wayeb: Wayeb, address: str, told: str
) -> None:
    (tmp_path / "p.sre").write_text(FAST)
    ended = wayeb("run", "p.sre", "--data", address.replace("BUCKET", str(bucket)[5:]), "--out", "out.csv")
    assert ended.code == 3
    assert told in ended.err
    assert "secret" not in ended.err
    assert "Traceback" not in ended.err


def test_a_store_that_does_not_answer_is_named_with_a_remedy(
    bucket: StorePath, tmp_path: Path, wayeb: Wayeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.sre").write_text(FAST)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    ended = wayeb("run", "p.sre", "--data", "s3://b/x.csv", "--out", "out.csv")
    assert ended.code == PASSING_FAULT
    assert "the store does not answer" in ended.err
    assert "AWS_ENDPOINT_URL" in ended.err
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in ended.err


def test_a_bucket_that_is_not_there_is_named_when_an_output_goes_to_it(
    bucket: StorePath, tmp_path: Path, wayeb: Wayeb
) -> None:
    (tmp_path / "p.sre").write_text(FAST)
    written(tmp_path, "e.csv")
    ended = wayeb("run", "p.sre", "--data", "e.csv", "--out", "s3://no-such-bucket-of-ours/x.csv")
    assert ended.code == 3
    assert "there is no bucket `no-such-bucket-of-ours`" in ended.err


@pytest.mark.parametrize("variable", ["STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"])
def test_the_variables_of_googles_tools_say_where_their_store_is(
    gcs_server: GcsServer, gs_bucket: StorePath, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setenv(variable, gcs_server.url)
    write_whole(gs_bucket / "x.csv", b"there")
    assert (gs_bucket / "x.csv").read_bytes() == b"there"
    with pytest.raises(DataError, match="there is no bucket `no-such-bucket-of-ours`"):
        write_whole(StorePath.parse("gs://no-such-bucket-of-ours/x.csv"), b"x")


@pytest.mark.parametrize("name", ["e.csv", "e.ndjson"])
def test_a_text_that_is_replaced_while_it_is_read_is_no_mixture(bucket: StorePath, tmp_path: Path, name: str) -> None:
    put(bucket / name, written(tmp_path, name))
    (file,) = find_files([str(bucket / name)])
    assert b"".join(block.data for block in read_lines(file, block_bytes=100)) == (tmp_path / name).read_bytes()
    blocks = read_lines(file, block_bytes=100)
    next(blocks)
    with (tmp_path / name).open("ab") as longer:
        longer.write(b"\n")
    put(bucket / name, tmp_path / name)
    with pytest.raises(PassingError, match="was replaced by another while it was read"):
        list(blocks)


def test_a_footer_is_not_taken_for_that_of_another_object(bucket: StorePath, tmp_path: Path) -> None:
    put(bucket / "e.parquet", written(tmp_path, "e.parquet"))
    reader = open_events([str(bucket / "e.parquet")], compile_patterns(FAST).wanted)
    (opened,) = reader.files
    first, second, _ = opened.calls(reader.selection, {})
    assert first().n_rows == 2
    pq.write_table(pa.concat_tables([EVENTS, EVENTS]), tmp_path / "other.parquet")
    put(bucket / "e.parquet", tmp_path / "other.parquet")
    with pytest.raises(PassingError, match="was replaced by another while it was read"):
        second()


MODEL = "s3://b/model"
ONLY_PATHS = [
    ("learn", "p.sre", "--data", "e.csv", "--out", MODEL),
    ("forecast", "p.sre", "--data", "e.csv", "--model", MODEL, "--horizon", "3 events", "--out", "x.csv"),
    ("forecast", "p.sre", "--data", "e.csv", "--evaluate", "s3://b/x.html", "--horizon", "3 events"),
    ("data", "convert", "e.csv", "--from", "csv", "--out", "s3://b/x"),
    ("ship", "--no-machine-code", "--out", "s3://b/x.zip"),
    ("map", "f.csv", "--data", "e.csv", "--out", "gs://b/x.html"),
    ("run", "p.sre", "--data", "e.csv", "--out", "x.csv", "--map", "s3a://b/x.html"),
    ("run", "s3://b/p.sre", "--data", "e.csv", "--out", "x.csv"),
    ("stream", "p.sre", "--source", "in", "--out", "found", "--checkpoint", "c", "--metrics-file", "hdfs://b/x"),
    ("check", "p.sre", "--functions", "abfs://c@b.dfs.core.windows.net/f.py"),
]  # fmt: skip


@pytest.mark.parametrize("words", ONLY_PATHS, ids=lambda words: " ".join(words)[:40])
def test_an_address_where_only_a_path_can_stand_makes_no_folder_of_that_name(
    words: tuple[str, ...], tmp_path: Path, wayeb: Wayeb
) -> None:
    (tmp_path / "p.sre").write_text(FAST)
    before = sorted(tmp_path.iterdir())
    ended = wayeb(*words)
    assert ended.code == USAGE_FAULT, ended.err
    (address,) = (word for word in words if "://" in word)
    assert f"`{address}` is an address of a store, and only a path can stand there" in ended.err
    assert sorted(tmp_path.iterdir()) == before


def test_forecasts_of_a_source_do_not_go_to_a_store(bucket: StorePath, tmp_path: Path, wayeb: Wayeb) -> None:
    (tmp_path / "p.sre").write_text(FAST)
    written(tmp_path, "e.csv")
    assert wayeb("learn", "p.sre", "--data", "e.csv", "--out", "model").code == 0
    words = ("forecast", "p.sre", "--source", "in", "--checkpoint", "c", "--model", "model", "--horizon", "3 events")
    ended = wayeb(*words, "--once", "--out", f"{bucket}/x.ndjson")
    assert ended.code == USAGE_FAULT
    assert "is an address of a store" in ended.err
    assert not (tmp_path / "s3:").exists()


def test_a_map_shows_detections_that_are_in_a_store(bucket: StorePath, tmp_path: Path, wayeb: Wayeb) -> None:
    (tmp_path / "p.sre").write_text(FAST)
    data = put(bucket / "e.csv", written(tmp_path, "e.csv"))
    shown = ("--data", data, "--patterns", "p.sre", "--title", "found")
    for name in ("f.parquet", "f.csv", "f.ndjson"):
        for out in (name, f"{bucket}/{name}"):
            assert wayeb("run", "p.sre", "--data", data, "--out", out, "--map", "run.html", "--quiet").code == 0
            ended = wayeb("map", out, *shown, "--out", "page.html")
            assert ended.code == 0, ended.err
            (tmp_path / "page.html").rename(tmp_path / ("store.html" if "://" in out else "disk.html"))
        assert (tmp_path / "store.html").read_bytes() == (tmp_path / "disk.html").read_bytes()
    assert wayeb("run", "p.sre", "--data", data, "--out", f"{bucket}/folder/", "--quiet").code == 0
    assert wayeb("map", f"{bucket}/folder", *shown, "--out", "folder.html").code == 0
    assert (tmp_path / "folder.html").read_bytes() == (tmp_path / "disk.html").read_bytes()
    ended = wayeb("map", f"{bucket}/none.parquet", *shown, "--out", "none.html")
    assert (ended.code, f"there is no file `{bucket}/none.parquet`" in ended.err) == (DATA_FAULT, True)


def test_files_in_a_store_are_described_and_converted(bucket: StorePath, tmp_path: Path, wayeb: Wayeb) -> None:
    data = put(bucket / "in/e.csv", written(tmp_path, "e.csv"))
    words = ("--from", "csv", "--map", "vehicle_id=key", "--map", "ts=ts")
    assert wayeb("data", "describe", data, *words).out.split()[:2] == ["events", "5"]
    for asked, out in (("e.csv", "disk"), (f"{bucket}/in/", "store"), (f"{bucket}/in/", "store")):
        ended = wayeb("data", "convert", asked, *words, "--out", out, "--partitions", "1")
        assert ended.code == 0, ended.err
    (disk,), (store,) = (list((tmp_path / name).glob("*.parquet")) for name in ("disk", "store"))
    assert pq.read_table(store).equals(pq.read_table(disk))
    assert pq.read_table(store).num_rows == 5


@pytest.mark.parametrize("text", ["a/b.csv", "s3/x", "C:/x", "a:b", "odd name://x"])
def test_a_path_is_no_address(text: str) -> None:
    assert not is_address(text)
    assert located(text) == Path(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("s3a://b/k/x", "s3://b/k/x"), ("gs://b/", "gs://b"), ("abfss://c@a.dfs.core.windows.net/x", None)],
)
def test_addresses_of_other_tools_mean_the_same(text: str, shown: str | None) -> None:
    assert str(located(text)) == (shown or text.replace("abfss", "abfs"))
