"""A state and its changes are the state that they lead to."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.strategies import examples
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.saved.operators import entity_state
from wayeb_py.engine.saved.packing import arrays_of, read_ipc, unpack_state
from wayeb_py.errors import DataError

HEADS = {
    "plain": "",
    "late": "lateness 3 s",
    "all": "lateness 3 s\n    forget after 90 s\n    clean gps\n    dedupe",
}
TEXT = """stream s {{
    key  id
    time ts in s
    position lon, lat
    {head}
}}
pattern Rising := (v > prev(v)){{2,}}        emit v
pattern Long   := #((v > 80), (v < 20), (v > 50)) within 30 s
pattern Held   := (held(k) > 5 s)
pattern Word   := (k != prev(k))
pattern There  := (near(point(0, 0), 3000 km)) ; (v > 10)* ; (v < 5)
"""
PLACES = """points port from "ports.csv"
pattern Near for each p in port := (distance(p) < 500 km){2,}
"""


def events(seed: int, n: int, keys: int, text: bool) -> pa.Table:
    dice = np.random.default_rng(seed)
    names = dice.integers(0, keys, n) * 7919 * (1 << 20)
    return pa.table(
        {
            "id": [f"e{i}" for i in names] if text else names,
            "ts": np.arange(n) - dice.integers(0, 5, n),
            "v": pa.array(dice.integers(0, 100, n), mask=dice.random(n) < 0.1),
            "k": pa.array(dice.choice(["a", "b", "c"], n), mask=dice.random(n) < 0.1),
            "lon": dice.uniform(-9, 9, n),
            "lat": dice.uniform(-9, 9, n),
        }
    )


def contents(recogniser: Recogniser) -> dict[str, Any]:
    """All that a saved state says, in a form that leaves out differences without meaning."""
    header, blobs = unpack_state(entity_state(recogniser.save()))
    arrays = arrays_of(blobs)
    entity, ts = arrays.pop("held_entity", np.zeros(0)), arrays.pop("held_ts", np.zeros(0))
    order = np.argsort(entity, kind="stable")  # events of different entities are held back in any order
    held = read_ipc(blobs["held"]).take(pa.array(order)).to_pylist() if "held" in blobs else []
    del arrays["floor_ts"]  # raised to the last time when it is read
    tail, count = arrays.pop("tail_ts").reshape(len(arrays["count"]), -1), arrays["count"]
    known = np.arange(tail.shape[1]) < count[:, None]
    told: dict[str, Any] = {name: repr(array.tolist()) for name, array in arrays.items()}  # NaN is no other NaN
    return told | {
        "keys": read_ipc(blobs["keys"]).to_pylist(),
        "held": list(zip(entity[order].tolist(), ts[order].tolist(), held, strict=True)),
        "tail": np.where(known, tail, 0).tolist(),
        "open": sorted(map(repr, header["open"])),
        "cohorts": header["cohorts"],
    }


def rows(detections: Any) -> list[str]:
    return sorted(map(repr, detections.to_arrow().to_pylist() + detections.episodes().to_pylist()))


@cache
def compiled(folder: Path, head: str, limits: Limits) -> wayeb_py.Patterns:
    (folder / "ports.csv").write_text("name,lon,lat\nA,-3,0\nB,3,1\nC,0,-4\n")
    (folder / "x.sre").write_text(TEXT.format(head=HEADS[head]) + PLACES)
    patterns = wayeb_py.compile(folder / "x.sre", limits=limits)
    patterns.knowledge.load_for(patterns.meaning.patterns)
    return patterns


@given(
    seed=st.integers(0, 10_000),
    head=st.sampled_from(sorted(HEADS)),
    limits=st.sampled_from([DEFAULT_LIMITS, Limits(table_states=0)]),
    text=st.booleans(),
    cuts=st.lists(st.integers(1, 25), min_size=2, max_size=12),
    ends=st.sampled_from([None, "idle", "finish"]),
)
@settings(max_examples=examples(40), deadline=None)
def test_changes_lead_from_one_state_to_the_next(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    head: str,
    limits: Limits,
    text: bool,
    cuts: list[int],
    ends: str | None,
) -> None:
    patterns = compiled(tmp_path_factory.getbasetemp(), head, limits)
    table = events(seed, 120 + sum(cuts), 40, text)
    first = Recogniser(patterns, episodes=True)
    first.of().note_changes()
    first.feed(table.slice(0, 120))
    saved = first.save()
    first.of().settle_changes()
    follower = Recogniser(patterns, episodes=True, saved=saved)
    at, n_whole = 120, 0
    for number, cut in enumerate(cuts):
        first.feed(table.slice(at, cut))
        at += cut
        if ends == "idle" and number % 3 == 2:
            first.flush_idle(pa.array(first.of().entities.keys().to_pylist()[::2], first.of().entities.key_type))
        if ends == "finish" and number == len(cuts) - 2:
            first.finish()
        told = first.of().save_changes()
        if told is None:
            n_whole += 1
            follower = Recogniser(patterns, episodes=True, saved=first.save())
        else:
            changes, whose = told
            follower.of().amend(changes)
            assert (np.diff(whose) > 0).all()
            assert len(changes) < len(first.save()) + 2000
        first.of().settle_changes()
        assert contents(follower) == contents(first)
    rest = events(seed + 1, 60, 50, text)
    assert rows(follower.feed(rest)) == rows(first.feed(rest))
    assert rows(follower.finish()) == rows(first.finish())


def started(n: int = 1000) -> Recogniser:
    patterns = wayeb_py.compile("stream s { key id time ts in s }\npattern P := (v > 50){2,}\n")
    recogniser = Recogniser(patterns)
    recogniser.of().note_changes()
    recogniser.feed(pa.table({"id": np.arange(n), "ts": np.zeros(n, dtype=np.int64), "v": np.full(n, 60)}))
    return recogniser


def test_changes_are_as_small_as_what_has_changed() -> None:
    recogniser = started(50_000)
    assert recogniser.of().save_changes() is None, "there is nothing to change yet"
    recogniser.of().settle_changes()
    recogniser.feed(pa.table({"id": [7, 60_000, 3], "ts": [9, 9, 9], "v": [60, 1, 60]}))
    told = recogniser.of().save_changes()
    assert told is not None
    changes, whose = told
    assert whose.tolist() == [3, 7, 50_000]
    assert len(changes) < 10_000 < len(recogniser.save()) / 100


def test_what_cannot_be_told_by_changes_is_kept_whole() -> None:
    recogniser = started()
    recogniser.of().settle_changes()
    recogniser.feed(pa.table({"id": np.arange(501), "ts": np.ones(501, dtype=np.int64), "v": np.full(501, 1)}))
    assert recogniser.of().save_changes() is None, "most of it has changed"
    patterns = wayeb_py.compile(
        "stream s { key id time ts in s lateness 10 s forget after 20 s }\npattern P := (v > prev(v))\n"
    )
    held = Recogniser(patterns)
    held.of().note_changes()
    held.feed(pa.table({"id": np.arange(100), "ts": np.zeros(100, dtype=np.int64), "v": np.full(100, 1)}))
    held.of().settle_changes()
    held.feed(pa.table({"id": [1, 1], "ts": [5, 30], "v": [4, 5]}))
    assert held.of().save_changes() is None, "values before are remembered for the first time"
    held.of().settle_changes()
    held.feed(pa.table({"id": [1], "ts": [31], "v": [4]}))
    assert held.of().save_changes() is not None
    many = pa.table({"id": np.arange(60), "ts": np.full(60, 5000), "v": np.full(60, 1)})
    held.feed(many)
    held.of().settle_changes()
    assert held.evict() is not None
    assert held.of().save_changes() is None, "entities have other numbers"


def test_changes_of_another_state_are_refused() -> None:
    recogniser = started()
    whole = recogniser.save()
    recogniser.of().settle_changes()
    recogniser.feed(pa.table({"id": [5000], "ts": [9], "v": [60]}))
    told = recogniser.of().save_changes()
    assert told is not None
    with pytest.raises(DataError, match="not changes of this state"):
        started(900).of().amend(told[0])
    with pytest.raises(DataError, match="not changes of this state"):
        recogniser.of().amend(told[0])
    with pytest.raises(DataError, match="not changes of this state"):
        recogniser.of().amend(whole)
    with pytest.raises(DataError, match="changes of a state, and not one"):
        Recogniser(recogniser.patterns, saved=told[0])
    with pytest.raises(ValueError, match="no batch"):
        Recogniser(recogniser.patterns).of().amend(told[0])
