"""A stream gives exactly the detections of a run over the same events, however it is cut, stopped, and resumed."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import wayeb_py
from tests.cases import Case
from tests.engine.test_corpus import CASES, answer_of, job_of
from tests.engines import Found, assert_equal, detections_of, episodes_of
from tests.parallel.driven_stream import DrivenStream
from wayeb_py.tally import NO_KEY, Tally


def write_cut(table: pa.Table, folder: Path, dice: random.Random) -> None:
    """The table as files whose names are in the order of its rows."""
    cuts = sorted(dice.randrange(table.num_rows + 1) for _ in range(2))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, table.num_rows], strict=True)):
        if start < end or not number:
            piece = table.slice(start, end - start).combine_chunks()
            with (
                pa.OSFile(str(folder / f"{number}.arrow"), "wb") as sink,
                pa.ipc.new_file(sink, table.schema) as writer,
            ):
                writer.write(piece)


def driven(case: Case, folder: Path, episodes: bool) -> DrivenStream:
    """The case read in tiny batches from files, with a restart after some of them."""
    dice = random.Random(case.name)
    job = job_of(case)
    source = folder / "events"
    source.mkdir(parents=True)
    table, _ = job.fed()
    write_cut(table, source, dice)
    stream = DrivenStream(folder / "checkpoint", source, job.compile(), episodes=episodes)
    stream.run(dice.randrange(1, 4), lambda: stream.restart() if dice.random() < 0.4 else None)
    return stream


@pytest.mark.parametrize("name", CASES)
def test_every_case_of_the_corpus_is_found_in_a_driven_stream(name: str, tmp_path: Path) -> None:
    answer, single = answer_of(CASES[name]), driven(CASES[name], tmp_path, episodes=False)
    found = single.found
    n_bad = sum(sum(counts["bad"].values()) for counts in found.counts)
    counts = Tally(late=found.total("late"), duplicates=found.total("duplicates"), bad=Counter({NO_KEY: n_bad}))
    detections = detections_of((t.drop_columns("detection_id") for t in found.tables), single.patterns)
    assert_equal(Found(detections, sorted(answer.episodes, key=repr), counts), answer)


# Those that are about episodes and every third of the others always, and the rest with `soak`.
OF_EPISODES = [
    name if case.episodes is not None or number % 3 == 0 else pytest.param(name, marks=pytest.mark.soak)
    for number, (name, case) in enumerate(CASES.items())
]


@pytest.mark.parametrize("name", OF_EPISODES)
def test_the_episodes_of_cases_are_found_in_a_driven_stream(name: str, tmp_path: Path) -> None:
    joined = driven(CASES[name], tmp_path, episodes=True)
    assert episodes_of(joined.found.tables, joined.patterns) == sorted(answer_of(CASES[name]).episodes, key=repr)


def test_late_events_take_little_room_on_their_way_to_the_driver(tmp_path: Path) -> None:
    source = tmp_path / "events"
    source.mkdir()
    n = 20_000
    table = pa.table(
        {"id": [i % 500 for i in range(n)], "ts": [n - i for i in range(n)], "v": [i % 97 for i in range(n)]}
    )
    write_cut(table, source, random.Random(1))
    stream = DrivenStream(
        tmp_path / "checkpoint", source, wayeb_py.compile("stream s { key id time ts in s }\npattern P := (v > 200)\n")
    )
    end = stream.plan()
    parcels = list(stream.parcels(end))
    stream.commit(end, parcels)
    n_bytes = sum(len(parcel.payload) for part in parcels for parcel in part)
    assert len(stream.found.aside) == stream.found.total("set_aside") == n - 500
    assert n_bytes < sum(len(str(row)) for row in stream.found.aside) / 5
