"""Files of a checkpoint that are damaged, renamed, or forged: noticed, made again, or refused."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wayeb_py
from tests.parallel.driven_stream import Driven, DrivenStream
from tests.parallel.recovery.test_recovery import FAST, STREAM, SWING, events, expected, rows, write_parts
from wayeb_py.errors import DamagedError, DataError
from wayeb_py.parallel.durable.sealed_files import put_sealed
from wayeb_py.parallel.recovery import pattern_versions
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.recovery.file_owner import require_private
from wayeb_py.parallel.recovery.first_start import mind_functions
from wayeb_py.parallel.recovery.pattern_versions import keep_version, load_schema, load_version, read_saved_patterns
from wayeb_py.parallel.recovery.snapshots import Epoch, Snapshot, SnapshotPoint, Snapshots

PATTERNS = STREAM + FAST + SWING


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing is remembered of what other tests have read."""
    for cached in (pattern_versions.load_version, pattern_versions.count_groups):
        cached.cache_clear()
    yield
    for cached in (pattern_versions.load_version, pattern_versions.count_groups):
        cached.cache_clear()


@pytest.fixture(scope="module")
def half_read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A checkpoint of which four batches of six are done, and where it is."""
    home = tmp_path_factory.mktemp("damage")
    write_parts(events(), home / "events")
    stream = DrivenStream(home / "checkpoint", home / "events", wayeb_py.compile(PATTERNS), ends=False)
    for _ in range(4):
        end = stream.plan(70)
        stream.commit(end, list(stream.parcels(end)))
    assert stream.offset is not None
    return home, stream.offset


def go_on(home: Path, offset: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The detections in the rest of the events."""
    stream = DrivenStream.__new__(DrivenStream)
    stream.folder, stream.source, stream.patterns = home / "checkpoint", home / "events", wayeb_py.compile(PATTERNS)
    stream.options = {"idle_s": None, "ends": False, "episodes": False}
    stream.offset, stream.version = offset, 0
    stream.found = Driven()
    stream.restart()
    return rows(stream.run(70).tables)


@pytest.mark.parametrize("n_bits", [70, pytest.param(300, marks=pytest.mark.soak)])
def test_a_flipped_bit_anywhere_changes_no_answer(
    half_read: tuple[Path, dict[str, Any]], tmp_path: Path, n_bits: int
) -> None:
    home, offset = half_read
    good = go_on(_copied(home, tmp_path / "good"), offset)
    assert good
    assert set(good) < set(expected(wayeb_py.compile(PATTERNS), events()))
    dice = np.random.default_rng(8)
    outcomes = {"equal": 0, "told": 0}
    for number in range(n_bits):
        copy = _copied(home, tmp_path / str(number))
        files = sorted(path for kind in ("eras", "snapshots") for path in (copy / "checkpoint" / kind).rglob("*.*"))
        path = files[number % len(files)]
        data = bytearray(path.read_bytes())
        data[dice.integers(len(data))] ^= 1 << int(dice.integers(8))
        path.write_bytes(data)
        answer = told_or_found(copy, offset)
        if isinstance(answer, str):
            assert "is damaged" in answer, path
            assert "not one sentence" not in answer, path
            outcomes["told"] += 1
        else:
            assert answer == good, path
            outcomes["equal"] += 1
        shutil.rmtree(copy)
    assert min(outcomes.values()) > n_bits // 8, "states are made again, patterns are not: both were met"


def told_or_found(home: Path, offset: dict[str, Any]) -> str | list[tuple[Any, ...]]:
    """The detections, or the one sentence that says why there can be none."""
    try:
        return go_on(home, offset)
    except DataError as error:
        return error.message if error.hint and "\n" not in error.message else f"not one sentence: {error}"


def _copied(home: Path, to: Path) -> Path:
    shutil.copytree(home, to)
    return to


def test_a_state_under_another_name_is_made_again(half_read: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    home, offset = half_read
    good = go_on(_copied(home, tmp_path / "good"), offset)
    for harm in ("older as newest", "other partition", "other stream"):
        copy = _copied(home, tmp_path / harm)
        folders = sorted((copy / "checkpoint" / "snapshots" / "0").iterdir())
        states = [sorted(f.glob("*.state"), key=lambda path: SnapshotPoint.parse(path.stem)) for f in folders]
        if harm == "older as newest":
            for own in states:
                os.replace(own[0], own[-1])
        elif harm == "other partition":
            content = states[1][-1].read_bytes()
            states[0][-1].write_bytes(content)
        else:
            partition = folders[0].name
            point = SnapshotPoint.parse(states[0][-1].stem)
            state = Snapshots(copy / "checkpoint" / "snapshots").read(0, partition, point)
            assert state is not None
            Snapshots(copy / "checkpoint" / "snapshots", "another").write(0, partition, point, state.whole)
        assert go_on(copy, offset) == good, harm


def test_names_that_are_not_ours_are_let_alone(tmp_path: Path) -> None:
    states = Snapshots(tmp_path)
    point = SnapshotPoint(Epoch(), 5)
    states.write(0, "", point, Snapshot(b"five"))
    folder = next((tmp_path / "0").rglob("*.state")).parent
    for name in ("copy of 5.state", "0-0-0-05.state", "x.state", ".x.state.1-ab.tmp", "0-0-0.state"):
        (folder / name).write_bytes(b"")
    chain = states.nearest(0, "", SnapshotPoint(Epoch(), 9))
    assert chain is not None
    assert (chain.point, chain.whole, chain.changes) == (point, Snapshot(b"five"), ())
    states.collect(0, "", SnapshotPoint(Epoch(), 9))
    assert len(list(folder.iterdir())) == 6


def test_a_state_of_the_format_before_is_read(tmp_path: Path) -> None:
    states, point = Snapshots(tmp_path, "s"), SnapshotPoint(Epoch(), 3)
    states.write(0, "p", point, Snapshot(b"state", b"12345678"))
    path = next(tmp_path.rglob("*.state"))
    body = (8).to_bytes(8, "little") + b"12345678" + b"state"
    old = b"wayeb-snapshot-1\n" + hashlib.sha256(body).digest() + body
    path.write_bytes(old)
    chain = states.read(0, "p", point)
    assert chain is not None
    assert chain.whole == Snapshot(b"state", b"12345678")
    path.write_bytes(old[:-1] + b"x")
    assert states.read(0, "p", point) is None


# Nothing is run.


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def put_with_a_seal(path: Path, code: bytes) -> None:
    """A user who can write the file can seal it as well."""
    put_sealed(path, {"what": "patterns", "stream": "s", "era": 0}, code)


@pytest.mark.parametrize("put", [Path.write_bytes, put_with_a_seal], ids=["as it is", "sealed"])
def test_a_pickle_in_the_place_of_patterns_is_not_opened(tmp_path: Path, put: Callable[[Path, bytes], object]) -> None:
    patterns, trap = wayeb_py.compile(PATTERNS), tmp_path / "sprung"
    keep_version(tmp_path, 0, patterns, [list(patterns.names)], events(1).schema, "s")
    code = pickle.dumps(Trap(trap))
    put(tmp_path / "000000.patterns", code)
    with pytest.raises(DamagedError) as raised:
        load_version(tmp_path, 0, "s")
    assert "\n" not in raised.value.message
    assert "--restart" in str(raised.value.hint)
    assert not trap.exists()
    pickle.loads(code)
    assert trap.exists(), "it would have"


def test_an_era_of_the_format_before_tells_its_types_and_is_not_opened(tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    by = {"release": "0.0.9", "format": 1, "python": "3.11"}
    head = json.dumps({"groups": [["Fast"]], "names": ["Fast"], "by": by}).encode()
    (tmp_path / "000000.era").write_bytes(head + b"\n" + bytes(events(1).schema.serialize()))
    (tmp_path / "000000.patterns").write_bytes(pickle.dumps(Trap(trap)))
    assert load_schema(tmp_path, 0, "s") == events(1).schema
    assert pattern_versions.count_groups(tmp_path, 0, "s") == 1
    with pytest.raises(DataError, match=r"release 0\.0\.9 \(format 1.*the formats differ") as raised:
        load_version(tmp_path, 0, "s")
    assert "start release 0.0.9 once more with --once" in str(raised.value.hint)
    assert not trap.exists()


def test_patterns_of_another_stream_or_era_are_not_taken(tmp_path: Path) -> None:
    patterns = wayeb_py.compile(PATTERNS)
    for number in range(2):
        keep_version(tmp_path, number, patterns, [list(patterns.names)], events(1).schema, "s")
    assert read_saved_patterns(tmp_path, 1, "s").names == patterns.names
    with pytest.raises(DamagedError, match="not what its name says"):
        read_saved_patterns(tmp_path, 1, "t")
    shutil.copy(tmp_path / "000000.patterns", tmp_path / "000001.patterns")
    with pytest.raises(DamagedError, match=r'not what its name says, but \{"era": 0'):
        read_saved_patterns(tmp_path, 1, "s")
    (tmp_path / "000001.patterns").unlink()
    with pytest.raises(DamagedError, match="cannot be read: No such file"):
        read_saved_patterns(tmp_path, 1, "s")


# Functions are code.


@wayeb_py.predicate("number")
def quick(speed: Any) -> Any:
    return speed > 50


def with_functions() -> wayeb_py.Patterns:
    return wayeb_py.compile(STREAM + "pattern Q := (quick(v)){2,}\n", functions=[quick])


def test_functions_are_kept_where_only_their_owner_can_write(tmp_path: Path) -> None:
    patterns, folder = with_functions(), tmp_path / "eras"
    keep_version(folder, 0, patterns, [["Q"]], events(1).schema)
    table = events()
    assert load_version(folder, 0).groups[0].recognise(table).to_arrow().equals(patterns.recognise(table).to_arrow())
    (folder / "000000.functions").chmod(0o664)
    with pytest.raises(DataError, match=r"can be written by others than its owner \(mode 664\)") as raised:
        read_saved_patterns(folder, 0)
    assert "chmod go-w" in str(raised.value.hint)
    (folder / "000000.functions").chmod(0o644)
    folder.chmod(0o777)
    with pytest.raises(DataError, match="can be written by others"):
        read_saved_patterns(folder, 0)
    with pytest.raises(DataError, match="can be written by others"):
        keep_version(folder, 1, patterns, [["Q"]], events(1).schema)
    folder.chmod(0o1777)  # only above it is that good enough
    with pytest.raises(DataError, match="can be written by others"):
        read_saved_patterns(folder, 0)
    folder.chmod(0o755)
    tmp_path.chmod(0o777)
    with pytest.raises(DataError, match="can be written by others"):
        read_saved_patterns(folder, 0)
    tmp_path.chmod(0o1777)
    assert read_saved_patterns(folder, 0).names == ("Q",)
    link = tmp_path / "link"
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    link.symlink_to(tmp_path / "open")
    with pytest.raises(DataError, match="can be written by others"):
        require_private(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_functions_of_another_owner_are_not_run(tmp_path: Path) -> None:
    keep_version(tmp_path, 0, with_functions(), [["Q"]], events(1).schema)
    os.chown(tmp_path / "000000.functions", 4711, -1)
    with pytest.raises(DataError, match=r"belongs to another user \(number 4711\)"):
        read_saved_patterns(tmp_path, 0)


def test_no_pickle_refuses_functions_when_they_are_given_and_when_they_are_read(tmp_path: Path) -> None:
    patterns = with_functions()
    said: list[str] = []
    with Checkpoint(tmp_path / "state") as checkpoint:
        with pytest.raises(DataError, match="the functions `quick` only as a pickle, and --no-pickle refuses"):
            mind_functions(patterns, checkpoint, True, said.append)
        mind_functions(patterns, checkpoint, False, said.append)
        assert said == [
            f"the checkpoint keeps `quick` as a pickle: anyone who can write to {tmp_path / 'state'} can run code here"
        ]
        mind_functions(wayeb_py.compile(PATTERNS), checkpoint, True, said.append)
        assert len(said) == 1
    keep_version(tmp_path / "eras", 0, patterns, [["Q"]], events(1).schema)
    with pytest.raises(DataError, match="--no-pickle refuses these"):
        load_version(tmp_path / "eras", 0, "", True)


def test_damaged_functions_are_told_before_they_are_opened(tmp_path: Path) -> None:
    keep_version(tmp_path, 0, with_functions(), [["Q"]], events(1).schema)
    path, trap = tmp_path / "000000.functions", tmp_path / "sprung"
    path.write_bytes(pickle.dumps(Trap(trap)))
    path.chmod(0o600)
    with pytest.raises(DamagedError, match="its checksum does not fit"):
        read_saved_patterns(tmp_path, 0)
    assert not trap.exists()
