"""The railways that we make are built like the models that the Train Benchmark publishes, and broken as often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pytest

from wayeb_py.simulate.railway import PARTS, REPAIR, SOUND, TIES, make_railway, write_railway

FOLDERS = [path / "shared/data/train_benchmark" for path in Path(__file__).parents]
FOLDER = next((path for path in FOLDERS if path.is_dir()), None)
NEEDS_MODELS = pytest.mark.skipif(FOLDER is None, reason="the railway models are not at hand (shared/data)")
Tables = dict[str, pa.Table]


def published(model: int) -> Tables:
    assert FOLDER is not None
    return read(FOLDER, f"railway-repair-{model}")


def read(folder: Path, name: str) -> Tables:
    return {label: pcsv.read_csv(folder / f"{name}-{label}.csv") for label in (*PARTS, *TIES)}


def ids(tables: Tables, label: str) -> set[int]:
    return set(tables[label][":ID"].to_pylist())


def ties(tables: Tables, label: str) -> list[tuple[int, int]]:
    return list(zip(*(tables[label][column].to_pylist() for column in (":START_ID", ":END_ID")), strict=True))


def shares(tables: Tables) -> dict[str, tuple[int, int]]:
    """Of every constraint how many are broken, or ties lacking, and of how many."""
    switches, segments = ids(tables, "Switch"), ids(tables, "Segment")
    stands = dict(zip(*(tables["Switch"][c].to_pylist() for c in (":ID", "currentPosition")), strict=True))
    wanted = dict(zip(*(tables["SwitchPosition"][c].to_pylist() for c in (":ID", "position")), strict=True))
    stretches = Counter(sensor for track, sensor in ties(tables, "monitoredBy") if track in segments)
    n_watched = sum(track in switches for track, _ in ties(tables, "monitoredBy"))
    n_routes, n_sensors = tables["Route"].num_rows, tables["Sensor"].num_rows
    return {
        "pos_length": (sum(m <= 0 for m in tables["Segment"]["length:INT"].to_pylist()), len(segments)),
        "switch_set": (sum(wanted[p] != stands[s] for p, s in ties(tables, "target")), len(switches)),
        "switch_monitored": (n_sensors - n_watched, n_sensors),
        "route_sensor": (n_watched - tables["requires"].num_rows, n_watched),
        "semaphore_neighbor": (n_routes - tables["entry"].num_rows, n_routes),
        "connected_segments": (sum(n > 5 for n in stretches.values()), n_sensors),
    }


def test_a_railway_is_a_ring_of_routes() -> None:
    tables = make_railway(3)
    assert tuple(tables) == (*PARTS, *TIES)
    every = [part for label in PARTS for part in tables[label][":ID"].to_pylist()]
    assert sorted(every) == list(range(1, len(every) + 1))
    track = ids(tables, "Switch") | ids(tables, "Segment")
    following = dict(ties(tables, "connectsTo"))
    here, seen = min(track), set()
    while here not in seen:
        seen.add(here)
        here = following[here]
    assert seen == track
    assert len(following) == tables["connectsTo"].num_rows
    leaves = dict(ties(tables, "exit"))
    routes = sorted(ids(tables, "Route"))
    assert set(leaves) == set(routes)
    before = dict(zip(routes, [routes[-1], *routes[:-1]], strict=True))
    assert all(semaphore == leaves[before[route]] for route, semaphore in ties(tables, "entry"))
    assert set(leaves.values()) == ids(tables, "Semaphore")


def test_a_sound_railway_breaks_nothing() -> None:
    assert {broken for broken, _ in shares(make_railway(2, shares=SOUND)).values()} == {0}


def test_the_same_seed_makes_the_same_railway() -> None:
    assert make_railway(2, seed=5) == make_railway(2, seed=5)
    assert make_railway(2, seed=5) != make_railway(2, seed=6)


def test_constraints_are_broken_as_often_as_asked() -> None:
    for name, (broken, of) in shares(make_railway(40)).items():
        asked = getattr(REPAIR, name)
        assert abs(broken / of - asked) < 4 * np.sqrt(asked * (1 - asked) / of), name


@NEEDS_MODELS
@pytest.mark.parametrize("model", [1, 2])
def test_a_railway_has_the_proportions_of_the_published_models(model: int) -> None:
    theirs, ours = published(model), make_railway(200)
    assert theirs["Route"].num_rows == make_railway(model)["Route"].num_rows == 5 * model
    for label in (*PARTS, *TIES):
        assert theirs[label].column_names == ours[label].column_names
    # How many of one part there are for each of another: exact where the description says so.
    n = {label: (theirs[label].num_rows, ours[label].num_rows) for label in (*PARTS, *TIES)}
    for of_one in ("Region", "Semaphore", "exit"):
        assert [n[of_one][side] / n["Route"][side] for side in (0, 1)] == [1, 1]
    for of_one in ("SwitchPosition", "follows", "target"):
        assert [n[of_one][side] / n["Switch"][side] for side in (0, 1)] == [1, 1]
    assert [n["connectsTo"][side] - n["Switch"][side] - n["Segment"][side] for side in (0, 1)] == [0, 0]
    # The others are thrown by dice, of which the published models are small samples: deviation of one, of all.
    for many, of_one, deviation in (("Switch", "Route", 5.5), ("Sensor", "Switch", 2.6), ("Segment", "Sensor", 0.22)):
        their_mean, our_mean = (n[many][side] / n[of_one][side] for side in (0, 1))
        assert their_mean == pytest.approx(our_mean, abs=4 * deviation / np.sqrt(n[of_one][0])), many


@NEEDS_MODELS
@pytest.mark.parametrize("model", [1, 2])
def test_the_published_models_are_broken_as_often_as_ours(model: int) -> None:
    ours = shares(make_railway(200))
    for name, (broken, of) in shares(published(model)).items():
        share = ours[name][0] / ours[name][1]
        assert abs(broken / of - share) < 4 * np.sqrt(share * (1 - share) / of), name


def test_a_railway_is_written_as_files_and_read_back(tmp_path: Path) -> None:
    tables = make_railway(1)
    write_railway(tables, tmp_path, "railway-repair-1")
    for label, table in read(tmp_path, "railway-repair-1").items():
        assert table.to_pydict() == {
            name: [value == "true" for value in column.to_pylist()] if name == "active:BOOLEAN" else column.to_pylist()
            for name, column in zip(tables[label].column_names, tables[label].columns, strict=True)
        }
    assert (tmp_path / "railway-repair-1-Route.csv").read_text().startswith('":ID","active:BOOLEAN"\n"3","true"\n')
