"""A saved state that is damaged, or forged, ends in a message: no crash, no wrong answer, no file replaced."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.run.event_runs import EVENTS, PATTERNS
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits
from wayeb_py.engine.saved.operators import entity_state
from wayeb_py.engine.saved.packing import pack_state, unpack_state
from wayeb_py.errors import DataError, WayebError
from wayeb_py.run.runner import run

pytestmark = pytest.mark.xdist_group("damaged states")  # which damage one state
SOURCE = """
stream vessels {
    key      id
    time     t in s
    position lon, lat
    attr     speed number in kn
    attr     status text
    attr     engine bool
    order    n
    lateness 3 s
    clean    ais
}
points port from "ports.csv"
pattern Rising  := (speed > prev(speed)){2,}
pattern Held    := (held(status) > 3 s) ; any
pattern Changed := (status != prev(status)) ; (engine = prev(engine))
pattern Long    := (speed > 0)+ ; (speed > 1)+ ; (status = "a")      within 40 s
pattern Moved   := (moved() > 1 m)
pattern Near for each p in port := (near(p, 50 km) and speed > 1) ; any* ; (near(p, 80 km))
"""


def events(n_events: int, seed: int) -> pa.Table:
    chance = random.Random(seed)
    return pa.table(
        {
            "id": pa.array([chance.randint(0, 4) for _ in range(n_events)]),
            "t": pa.array([i // 2 + chance.randint(0, 3) for i in range(n_events)]),
            "lon": pa.array([chance.uniform(-5, -4) for _ in range(n_events)]),
            "lat": pa.array([chance.uniform(48, 48.5) for _ in range(n_events)]),
            "speed": pa.array([chance.choice([0.0, 1.5, 3.0, None]) for _ in range(n_events)]),
            "status": pa.array([chance.choice(["a", "b", None]) for _ in range(n_events)]),
            "engine": pa.array([chance.choice([True, False, None]) for _ in range(n_events)]),
            "n": pa.array(range(n_events)),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "ports.csv").write_text("name,lon,lat\nAber,-4.5,48.3\nBono,-4.44,48.32\nDour,-4.1,48.1\n")
    (folder / "p.sre").write_text(SOURCE)
    return folder


EXTREMES = (-(2**31), -2, -1, 2, 3, 5, 255, 1_000, 60_000, 2**31 - 1)


def changed(array: np.ndarray[Any, Any], chance: random.Random) -> np.ndarray[Any, Any] | None:
    """The array in a form in which no release saved it."""
    match chance.randrange(6):
        case 0:
            return None
        case 1:
            return array[: len(array) // 2]
        case 2:
            return np.zeros(array.shape, dtype=chance.choice([np.float32, np.int16, np.uint32]))
        case 3:
            return np.concatenate([array, array])
        case _:
            if array.dtype.kind not in "iu" or not array.size:
                return array[:0]
            array = array.copy()
            bound = np.iinfo(array.dtype)
            value = min(max(chance.choice(EXTREMES), int(bound.min)), int(bound.max))
            array.reshape(-1)[chance.randrange(array.size)] = value
            return array


@pytest.mark.parametrize(("limits", "own_input"), [(DEFAULT_LIMITS, True), (Limits(table_states=0), False)])
def test_a_forged_state_is_refused_or_harmless(folder: Path, limits: Limits, own_input: bool) -> None:
    patterns = wayeb_py.compile(folder / "p.sre", limits=limits)
    first = wayeb_py.Recogniser(patterns, episodes=True, own_input=own_input)
    first.feed(events(200, 1))
    header, blobs = unpack_state(entity_state(first.save()))
    with np.load(io.BytesIO(blobs["arrays"])) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    more = events(60, 2)
    more = more.set_column(1, "t", pa.array([t.as_py() + 100 for t in more["t"]]))

    def go_on(with_arrays: dict[str, Any]) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **with_arrays)
        made = pack_state(
            {name: value for name, value in header.items() if name != "blobs"}, blobs | {"arrays": buffer.getvalue()}
        )
        second = wayeb_py.Recogniser(patterns, episodes=True, saved=made, own_input=own_input)
        second.feed(more)
        second.finish()

    go_on(arrays)
    chance = random.Random(7)
    refused = []
    for name in arrays:
        for _ in range(5):
            new = changed(arrays[name], chance)
            others = {key: value for key, value in arrays.items() if key != name}
            try:
                go_on(others if new is None else others | {name: new})
            except DataError as error:
                refused.append(error.message)
            except WayebError:  # an event before the last, for example, if the last time was changed
                pass
    assert set(refused) == {"the saved state does not fit its own patterns, or is damaged"}
    assert len(refused) > 2 * len(arrays)


@pytest.mark.parametrize("name", ["keys", "held", "schema", "arrays"])
def test_a_part_of_a_state_that_was_cut_or_flipped_and_sealed_again_is_refused(folder: Path, name: str) -> None:
    patterns = wayeb_py.compile(folder / "p.sre")
    first = wayeb_py.Recogniser(patterns)
    first.feed(events(200, 1))
    header, blobs = unpack_state(entity_state(first.save()))
    plain = {key: value for key, value in header.items() if key != "blobs"}
    chance = random.Random(3)
    n_refused = 0
    for _ in range(40):
        part = bytearray(blobs[name])
        if chance.randrange(4) == 0:
            part = part[: chance.randrange(len(part))]
        else:
            part[chance.randrange(len(part))] ^= 1 << chance.randrange(8)
        try:
            wayeb_py.Recogniser(patterns, saved=pack_state(plain, blobs | {name: bytes(part)})).feed(events(60, 2))
        except WayebError:
            n_refused += 1
    assert n_refused > 5


@pytest.mark.parametrize("key", ["tail", "cohorts", "open", "next_birth", "names", "ticks_per_s", "lateness"])
@pytest.mark.parametrize("value", [None, "x", -1, [], {}, 2**40, [[0, 1, 99]]])
def test_a_head_that_says_something_else_is_refused_or_harmless(folder: Path, key: str, value: Any) -> None:
    patterns = wayeb_py.compile(folder / "p.sre")
    first = wayeb_py.Recogniser(patterns, episodes=True)
    first.feed(events(50, 1))
    header, blobs = unpack_state(entity_state(first.save()))
    plain = {name: part for name, part in header.items() if name != "blobs"} | {key: value}
    more = events(60, 2)
    try:
        said = wayeb_py.Recogniser(patterns, episodes=True, saved=pack_state(plain, blobs)).feed(more).to_arrow().schema
    except WayebError as refusal:
        said = str(refusal).partition("\n")[0]
    assert said == first.feed(more).to_arrow().schema or (isinstance(said, str) and "state" in said)


def test_every_flipped_bit_of_a_state_file_is_noticed_and_no_nights_file_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for night in range(2):
        pq.write_table(EVENTS.slice(1000 * night, 1000), tmp_path / f"{night}.parquet")
        run(PATTERNS, [tmp_path / f"{night}.parquet"], tmp_path / "out", state_dir=tmp_path / "state")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    path = tmp_path / "state" / "recogniser.state"
    content = path.read_bytes()
    n_head = content.index(b"\n") + 1
    assert json.loads(content[:n_head])["n_runs"] == 2
    chance = random.Random(5)
    for bit in [*range(8 * n_head), *(chance.randrange(8 * n_head, 8 * len(content)) for _ in range(60))]:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        if bit < 8 * n_head and json_says_the_same(content[:n_head], bytes(damaged[:n_head])):
            continue
        path.write_bytes(damaged)
        with pytest.raises(DataError):
            run(PATTERNS, [tmp_path / "1.parquet"], tmp_path / "out", state_dir=tmp_path / "state")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert len(before) == 2


def json_says_the_same(one: bytes, other: bytes) -> bool:
    """Whether a flipped bit turned one space into another."""
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_a_bit_of_a_recognisers_own_state_is_noticed_wherever_it_is(folder: Path) -> None:
    patterns = wayeb_py.compile(folder / "p.sre")
    first = wayeb_py.Recogniser(patterns)
    first.feed(events(20, 1))
    state = first.save()
    chance = random.Random(1)
    for bit in [*range(8 * 60), *(chance.randrange(8 * len(state)) for _ in range(40))]:
        damaged = bytearray(state)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DataError):
            wayeb_py.Recogniser(patterns, saved=bytes(damaged))
