"""Events that the lateness holds back when a state is saved go on with other patterns."""

from __future__ import annotations

import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.engine.recogniser import Recogniser

HEAD = "stream s { key id  time ts in s  lateness 10 s }\n"
FAST = "pattern Fast := (v > 5) ; (v > 5)\n"
BOTH = "pattern Known := (not missing(k))\npattern Unknown := (missing(k))\n"
KINDS = {
    "texts": pa.array(["a", "a", "a"]),
    "words": pa.array(["a", "a", "a"]).dictionary_encode(),
    "numbers": pa.array([1.5, 1.5, 1.5]),
    "times": pa.array([1, 1, 1], pa.timestamp("us", "UTC")),
}


def rows(ts: list[int], v: list[int], k: pa.Array) -> pa.Table:
    return pa.table({"id": pa.array(["x"] * len(ts)), "ts": ts, "v": v, "k": k.slice(0, len(ts))})


@pytest.mark.parametrize("kind", KINDS)
def test_what_only_new_patterns_read_is_missing_in_events_that_were_held_back(kind: str) -> None:
    k = KINDS[kind]
    before = Recogniser(wayeb_py.compile(HEAD + FAST))
    assert not len(before.feed(rows([0, 5], [9, 9], k)))  # both are held back
    after = Recogniser(wayeb_py.compile(HEAD + FAST + BOTH))
    after.restore(before.save())
    found = [*after.feed(rows([20, 21, 40], [1, 1, 1], k)), *after.finish()]
    assert [(row["pattern"], row["ts"]) for row in found] == [
        ("Unknown", 0), ("Fast", 5), ("Unknown", 5), ("Known", 20), ("Known", 21), ("Known", 40),
    ]  # fmt: skip
