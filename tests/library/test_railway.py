"""The railway library finds what breaks its constraints, after every repair what is still broken, and at last none."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pytest

import wayeb_py
from tests.library.railway_constraints import FILES, Change, Railway, Row, apply, broken, read_railway, repair

pytestmark = pytest.mark.xdist_group("railway")  # whose repairs are found once
LIBRARY = Path(__file__).parents[2] / "patterns"
MODEL = LIBRARY / "railway/model"
FOLDERS = [path / "shared/data/train_benchmark" for path in Path(__file__).parents]
FOLDER = next((path for path in FOLDERS if path.is_dir()), None)
NEEDS_MODELS = pytest.mark.skipif(FOLDER is None, reason="the railway models are not at hand (shared/data)")
MODELS = [
    pytest.param(0, id="ours"),
    pytest.param(1, id="repair-1", marks=NEEDS_MODELS),
    pytest.param(2, id="repair-2", marks=NEEDS_MODELS),
]
EMITTED = {
    "PosLength": ("segment", "length"),
    "SwitchMonitored": ("switch",),
    "RouteSensor": ("route", "position", "switch", "sensor"),
    "SwitchSet": ("route", "semaphore", "position", "switch"),
    "SemaphoreNeighbor": ("semaphore", "route", "next_route", "sensor", "next_sensor", "track", "next_track"),
    "ConnectedSegments": ("sensor", *(f"segment{nth}" for nth in range(1, 7))),
}
CHANGED = {  # the stream of each, and what it calls the columns
    "segment": ("of_segments", ("id", "length")),
    "switch": ("of_switches", ("id", "stands")),
    "monitored_by": ("of_monitored_by", ("track", "sensor")),
    "requires": ("of_requires", ("route", "sensor")),
    "entry": ("of_entry", ("route", "semaphore")),
    "connects_to": ("of_connects_to", ("track", "next_track")),
}


def library(model: int, folder: Path) -> tuple[Path, Railway]:
    """The library with the files of a model, and its rows."""
    shutil.copytree(LIBRARY / "railway", folder / "railway")
    shutil.copy(LIBRARY / "railway.sre", folder)
    if model:
        assert FOLDER is not None
        for label in FILES.values():
            shutil.copy(
                FOLDER / f"railway-repair-{model}-{label}.csv", folder / f"railway/model/railway-repair-1-{label}.csv"
            )
    return folder, read_railway(folder / "railway/model", "railway-repair-1")


def rows_of(found: pa.Table) -> list[tuple[str, str, int | None, Row]]:
    """Of every match that begins or ends: its rule, `+` or `-`, when, and what it emits."""
    return [
        (row["pattern"], row["op"], row["ts"], tuple(row[column] for column in EMITTED[row["pattern"]]))
        for row in found.to_pylist()
        if row["pattern"] in EMITTED
    ]


PUBLISHED = {0: {}, 1: {"RouteSensor": 18, "SemaphoreNeighbor": 3}, 2: {"RouteSensor": 33, "SemaphoreNeighbor": 6}}


@pytest.mark.parametrize("model", MODELS)
def test_what_is_broken_is_what_the_definitions_say(model: int, tmp_path: Path) -> None:
    published = PUBLISHED[model]
    folder, railway = library(model, tmp_path)
    found = rows_of(wayeb_py.Recogniser(wayeb_py.compile(folder / "railway.sre")).finish().to_arrow())
    assert {(op, ts) for _, op, ts, _ in found} == {("+", None)}
    assert Counter((rule, match) for rule, _, _, match in found) == Counter(
        (rule, match) for rule, matches in broken(railway).items() for match in matches
    )
    counts = Counter(rule for rule, *_ in found)
    assert published.items() <= counts.items()
    assert published or set(counts) == set(EMITTED)  # the sample has one of each at least


@cache
def all_repairs(model: int) -> tuple[Railway, list[list[Change]], list[dict[str, set[Row]]]]:
    """The rows of a model; one repair after another until nothing is broken; what is broken before and after each."""
    with tempfile.TemporaryDirectory() as folder:
        _, railway = library(model, Path(folder))
    at_first = {facts: set(rows) for facts, rows in railway.items()}
    rounds, states = [], [broken(railway)]
    while any(states[-1].values()):
        constraint = next(name for name, matches in states[-1].items() if matches)
        rounds.append(repair(railway, constraint, min(states[-1][constraint])))
        apply(railway, rounds[-1])
        states.append(broken(railway))
    return at_first, rounds, states


def streams_of(railway: Railway, rounds: list[list[Change]]) -> dict[str, pa.Table]:
    """Changes as streams: at 0 every fact begins, and every round is a minute later."""
    tables = {}
    for facts, (stream, columns) in CHANGED.items():
        rows = [(0, "+", row) for row in sorted(railway[facts])]
        rows += [
            (60 * (nth + 1), op, row) for nth, changes in enumerate(rounds) for of, op, row in changes if of == facts
        ]
        values = {name: [row[nth] for _, _, row in rows] for nth, name in enumerate(columns)}
        tables[stream] = pa.table({"at": [at for at, *_ in rows], "op": [op for _, op, _ in rows], **values})
    return tables


@pytest.mark.parametrize("model", [*MODELS[:2], pytest.param(2, id="repair-2", marks=[NEEDS_MODELS, pytest.mark.soak])])
@pytest.mark.parametrize("batch", [100_000, 37])
def test_after_each_repair_the_matches_are_those_of_an_evaluation_from_scratch_and_at_last_none(
    model: int, batch: int, tmp_path: Path
) -> None:
    folder, _ = library(model, tmp_path)
    at_first, rounds, states = all_repairs(model)
    assert len(rounds) > 40
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(folder / "railway/repairs.sre"))
    found: list[tuple[str, str, int | None, Row]] = []
    pieces = {name: table.to_batches(max_chunksize=batch) for name, table in streams_of(at_first, rounds).items()}
    for together in zip_longest(*pieces.values()):
        for name, piece in zip(pieces, together, strict=True):
            if piece is not None:
                found += rows_of(recogniser.feed(piece, name).to_arrow())
    found += rows_of(recogniser.finish().to_arrow())
    standing: dict[str, set[Row]] = {rule: set() for rule in EMITTED}
    waiting = iter(found)
    following = next(waiting, None)
    for nth, state in enumerate(states):
        while following is not None and (following[2] or 0) == 60 * nth:
            rule, op, _, match = following
            assert (match in standing[rule]) == (op == "-")
            standing[rule] ^= {match}
            following = next(waiting, None)
        assert standing == state, f"after repair {nth}"
    assert following is None
    assert not any(standing.values())
