"""Runs that continue from night to night find what one run finds: nothing lost, nothing twice."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.run.event_runs import EVENTS, PATTERNS, rows_of, shuffled_but_for_ties
from wayeb_py.engine.saved.operators import MAGIC, entity_state
from wayeb_py.errors import DataError
from wayeb_py.files.output.write import ParquetOutput
from wayeb_py.files.state_folder import StateFolder
from wayeb_py.run.runner import run


@pytest.mark.parametrize("episodes", [False, True])
@pytest.mark.parametrize("cuts", [[1000], [3, 3, 999, 1001, 1998]])
@pytest.mark.parametrize("arrange", [pa.table, shuffled_but_for_ties], ids=["in order", "in disorder"])
def test_nightly_runs_equal_one_run_over_everything(
    tmp_path: Path, episodes: bool, cuts: list[int], arrange: Callable[[pa.Table], pa.Table]
) -> None:
    pq.write_table(EVENTS, tmp_path / "all.parquet")
    nights = zip([0, *cuts], [*cuts, EVENTS.num_rows], strict=True)
    (tmp_path / "out").mkdir()
    n_events = 0
    for night, (start, end) in enumerate(nights):
        part = EVENTS.slice(start, end - start)
        if start % 2 == 0 and end % 2 == 0:  # else a cut parts two events of one time
            part = arrange(part)
        pq.write_table(part, tmp_path / "night.parquet")
        last = end == EVENTS.num_rows
        summary = run(
            PATTERNS,
            [tmp_path / "night.parquet"],
            tmp_path / "out",
            episodes=episodes,
            state_dir=tmp_path / "state",
            final=last,
        )
        assert summary.aside == {}, night
        n_events += summary.events
    run(PATTERNS, [tmp_path / "all.parquet"], f"{tmp_path}/all/", episodes=episodes)
    stem = "episodes" if episodes else "detections"
    assert n_events == EVENTS.num_rows
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "all" / f"{stem}.parquet")
    assert len(os.listdir(tmp_path / "out")) == len(cuts) + 1


@pytest.mark.parametrize("cut", [1, 7, 50, 93])
def test_nights_with_a_lateness_wait_for_stragglers_of_the_next(tmp_path: Path, cut: int) -> None:
    patterns = wayeb_py.compile(
        "stream s {\n key id\n time ts\n lateness 10 s\n}\npattern P := (x > 0) ; (x > 1) ; (x > 0)\n"
    )
    chance = random.Random(cut)
    times = [i + chance.randint(-9, 9) for i in range(100)]
    events = pa.table(
        {
            "id": pa.array([chance.randint(0, 2) for _ in times]),
            "ts": pa.array(times, pa.timestamp("s")),
            "x": pa.array([chance.randint(0, 3) for _ in times]),
        }
    )
    (tmp_path / "out").mkdir()
    n_late = 0
    for night, part in enumerate([events.slice(0, cut), events.slice(cut)]):
        pq.write_table(part, tmp_path / "night.parquet")
        summary = run(
            patterns, [tmp_path / "night.parquet"], tmp_path / "out", state_dir=tmp_path / "state", final=night == 1
        )
        n_late += summary.aside.get("late", 0)
    pq.write_table(events, tmp_path / "all.parquet")
    whole = run(patterns, [tmp_path / "all.parquet"], tmp_path / "whole.parquet")
    found = [row for path in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert sorted(found, key=repr) == rows_of(tmp_path / "whole.parquet")
    assert n_late == whole.aside["late"] > 0
    assert len(found) > 5


def test_what_is_older_than_the_state_is_late(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet")
    (tmp_path / "out").mkdir()
    run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "out", state_dir=tmp_path / "state")
    again = run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "out", state_dir=tmp_path / "state")
    # The last event of each vehicle is not older than itself, but it has been recognised.
    assert again.events == 0
    assert 7 <= again.aside["recognised before"] <= 2 * 7
    assert again.aside["late"] + again.aside["recognised before"] == 2000
    assert sum(again.detections.values()) == 0
    assert [note for note in again.notes if "this input has been run before" in note]


LAST = "stream s {\n key id\n time ts in s\n%s}\npattern P := (x >= 0)   emit x\n"


def write_night(path: Path, rows: list[tuple[int, int, float | None]]) -> None:
    ids, times, values = zip(*rows, strict=True)
    table = pa.table({"id": ids, "ts": times, "x": pa.array(values, pa.float64())})
    pcsv.write_csv(table, path) if path.suffix == ".csv" else pq.write_table(table, path)


@pytest.mark.parametrize("lateness", ["", "lateness 5 s\n", "lateness 0 s\n"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_an_event_of_the_last_time_is_new_unless_it_is_the_same_one(tmp_path: Path, lateness: str, suffix: str) -> None:
    patterns = wayeb_py.compile(LAST % lateness)
    (tmp_path / "out").mkdir()
    monday: list[tuple[int, int, float | None]] = [(1, 10, 1.0), (2, 10, 1.0), (2, 10, 1.0), (3, 10, None)]
    nights: list[tuple[list[tuple[int, int, float | None]], dict[str, int]]] = [
        (monday, {}),
        # The same again, exported in another form and order: nothing is new.
        (monday[::-1], {"recognised before": 4}),
        # Others of the same time; of two that are equal to one that was there, one is new.
        ([(1, 10, 1.0), (1, 10, 1.0), (1, 10, 2.0), (4, 10, 1.0)], {"recognised before": 1}),
    ]
    for night, (rows, aside) in enumerate(nights):
        path = tmp_path / f"{night}.{'parquet' if night == 1 else suffix}"
        write_night(path, rows)
        summary = run(patterns, [path], tmp_path / "out", state_dir=tmp_path / "state", final=night == 2)
        assert summary.aside == aside, night
        assert bool(summary.notes) == (night == 1)
    parts = [rows_of(path) for path in (tmp_path / "out").glob("*.parquet")]
    found = [(row["entity"], row["x"]) for part in parts for row in part]
    assert sorted(found) == [(1, 1.0), (1, 1.0), (1, 2.0), (2, 1.0), (2, 1.0), (4, 1.0)]


@pytest.mark.parametrize("lateness", [None, 0, 4])
@pytest.mark.parametrize("seed", range(6))
def test_nights_that_are_run_again_change_nothing(tmp_path: Path, lateness: int | None, seed: int) -> None:
    chance = random.Random(seed)
    lines = "" if lateness is None else f" lateness {lateness} s\n"
    patterns = wayeb_py.compile(LAST % lines + "pattern Q := (x > 0) ; (x > 1) ; (x > 0)\n")
    times = [i // 3 + (chance.randint(-3, 3) if lateness else 0) for i in range(60)]
    # No two events are equal: they would look like repeated ones.
    rows: list[tuple[int, int, float | None]] = [
        (chance.randint(0, 2), time, chance.randint(0, 2) + i / 1000) for i, time in enumerate(times)
    ]
    cuts = sorted(chance.randint(0, 60) for _ in range(4))
    (tmp_path / "out").mkdir()
    nights = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 60], strict=True) if b > a]
    for night, part in enumerate(nights):
        write_night(tmp_path / f"{night}.parquet", part)
        for again in range(chance.randint(1, 3)):
            final = night == len(nights) - 1 and again == 0
            summary = run(
                patterns, [tmp_path / f"{night}.parquet"], tmp_path / "out", state_dir=tmp_path / "state", final=final
            )
            assert again == 0 or (summary.events, sum(summary.detections.values())) == (0, 0)
    write_night(tmp_path / "all.parquet", rows)
    run(patterns, [tmp_path / "all.parquet"], tmp_path / "whole.parquet")
    found = [row for path in (tmp_path / "out").glob("*.parquet") for row in rows_of(path)]
    assert sorted(found, key=repr) == rows_of(tmp_path / "whole.parquet")


def test_events_of_the_last_time_count_as_recognised_where_patterns_read_other_columns_now(tmp_path: Path) -> None:
    write_night(tmp_path / "monday.parquet", [(1, 10, 1.0), (2, 9, 1.0)])
    (tmp_path / "out").mkdir()
    for night, more in enumerate(["", "pattern Q := (id = 1)\n"]):
        patterns = wayeb_py.compile(LAST % "" + more)
        data = tmp_path / "monday.parquet"
        summary = run(patterns, [data], tmp_path / "out", state_dir=tmp_path / "state")
        assert summary.aside == ({"recognised before": 2} if night else {})


@pytest.mark.parametrize(("owner", "step"), [(StateFolder, "save"), (ParquetOutput, "commit")])
def test_a_night_that_failed_is_repeated_without_anything_lost_or_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, step: str
) -> None:
    pq.write_table(PATTERNS.recognise(EVENTS).to_arrow(), tmp_path / "expected.parquet")
    expected = rows_of(tmp_path / "expected.parquet")
    (tmp_path / "out").mkdir()
    for night in range(2):
        pq.write_table(EVENTS.slice(1000 * night, 1000), tmp_path / f"{night}.parquet")

    def fail(*given: object) -> None:
        raise DataError("the power went out")

    run(PATTERNS, [tmp_path / "0.parquet"], tmp_path / "out", state_dir=tmp_path / "state")
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, fail)
        with pytest.raises(DataError, match="the power went out"):
            run(PATTERNS, [tmp_path / "1.parquet"], tmp_path / "out", state_dir=tmp_path / "state")
    run(PATTERNS, [tmp_path / "1.parquet"], tmp_path / "out", state_dir=tmp_path / "state")
    assert rows_of(tmp_path / "out") == expected


@pytest.mark.parametrize(
    ("nights", "entity", "aside"),
    [
        ([["a7", "8"], ["8", "9"]], "8", {}),  # the second night alone would look like numbers
        ([["7", "8"], ["8", "a9"]], 8, {"the key cannot be read": 1}),  # and here like text
    ],
)
def test_a_text_file_is_read_as_the_night_before(
    tmp_path: Path, nights: list[list[str]], entity: str | int, aside: dict[str, int]
) -> None:
    (tmp_path / "out").mkdir()
    for night, keys in enumerate(nights):
        rows = "".join(f"{key},2016-01-01T00:00:0{night},0,on\n" for key in keys)
        (tmp_path / "e.csv").write_text("id,ts,speed,engine\n" + rows)
        summary = run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "out", state_dir=tmp_path / "state")
    assert summary.aside == aside
    found = [row for path in (tmp_path / "out").glob("*.parquet") for row in rows_of(path)]
    assert [row["entity"] for row in found] == [entity]


def test_two_runs_cannot_share_a_state(tmp_path: Path) -> None:
    with StateFolder(tmp_path), pytest.raises(DataError, match="another run is using this state"):
        StateFolder(tmp_path)
    with StateFolder(tmp_path) as state:
        assert state.n_runs == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"rubbish", "this is not a state of wayeb"),
        (b'{"wayeb_state": 99, "n_runs": 1}\n', "the state has version 99, and this wayeb reads 2"),
        (b'{"wayeb_state": 2, "n_runs": 1}\nrubbish', "the state is damaged: its checksum does not fit"),
    ],
)
def test_a_damaged_state_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "recogniser.state").write_bytes(content)
    pq.write_table(EVENTS, tmp_path / "e.parquet")
    with pytest.raises(DataError) as raised:
        run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.csv", state_dir=tmp_path / "state")
    assert str(raised.value).startswith(message)
    assert not (tmp_path / "d.csv").exists()


def test_a_state_of_the_release_before_is_read(tmp_path: Path) -> None:
    """Its checksums left out the heads: of the file, and of what the file holds."""
    (tmp_path / "out").mkdir()
    for night in range(2):
        pq.write_table(EVENTS.slice(1000 * night, 1000), tmp_path / f"{night}.parquet")
        run(PATTERNS, [tmp_path / f"{night}.parquet"], tmp_path / "out", state_dir=tmp_path / "state")
        if night == 0:
            path = tmp_path / "state" / "recogniser.state"
            state = entity_state(path.read_bytes().partition(b"\n")[2])
            at = len(MAGIC) + 2
            older = MAGIC + b"\x01\x00" + hashlib.sha256(state[at + 40 :]).digest() + state[at + 32 :]
            path.write_bytes(b'{"wayeb_state": 1, "n_runs": 1}\n' + older)
    pq.write_table(PATTERNS.recognise(EVENTS).to_arrow(), tmp_path / "expected.parquet")
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "expected.parquet")
