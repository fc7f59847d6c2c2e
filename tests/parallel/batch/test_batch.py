"""On Spark the detections are those of one process, whatever the scheme, the partitions and the files.

The corpus and random cases are compared with the oracle, pooled into few jobs; whole runs are compared with the runner.
Most cases of the corpus form one pool, the others small pools of unusual types and settings. Each case is shuffled by
entity in one of two ways and spread in one of the three ways without a shuffle; the tests marked `soak` take every case
in every way. Of the data frames, each with a job of its own, the large pool and every eighth small one have their turn,
and the others with `soak`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings

import wayeb_py
from tests.cases import KEY
from tests.engine.test_corpus import CASES, answer_of, job_of
from tests.engine.test_properties import Scene, scenes
from tests.pooled import Pool, pool, write
from tests.strategies import N_EXAMPLES_FACTOR
from wayeb_py.files.read import open_events
from wayeb_py.parallel.batch import plan as planning
from wayeb_py.parallel.batch import schemes
from wayeb_py.parallel.batch.dataframe import recognise
from wayeb_py.parallel.batch.task import JobSpec
from wayeb_py.parallel.spark.pattern_bundle import pack_patterns
from wayeb_py.parallel.wire.output_schema import output_schema
from wayeb_py.parallel.wire.parcel import unpack
from wayeb_py.parallel.wire.routing import SHARDS_A_WORKER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Layout = Callable[[Pool, Path], list[Path]]
Way = tuple[schemes.Scheme, Layout, int, bool]  # scheme, layout, workers, episodes


# ---- pools: many cases in one job


def written(table: pa.Table, folder: Path, name: str, group_rows: int) -> Path:
    """A file with groups of `group_rows` rows, and at most some forty of them: a batch costs as much as it has
    patterns.

    The groups of a large pool still part each case's events, since those of many cases lie between.
    """
    return write(table, folder, name, group_rows=max(group_rows, table.num_rows // 40))


def one_file(own: Pool, folder: Path) -> list[Path]:
    return [written(own.interleaved(random.Random(1)), folder, "all", group_rows=7)]


def anyhow(own: Pool, folder: Path) -> list[Path]:
    """Files and row groups that begin and end wherever they may."""
    dice = random.Random(2)
    table = own.interleaved(dice)
    cuts = sorted(dice.randrange(table.num_rows + 1) for _ in range(3))
    bounds = zip([0, *cuts], [*cuts, table.num_rows], strict=True)
    return [
        written(table.slice(begin, end - begin), folder, f"{number}", group_rows=dice.choice((1, 3, 50)))
        for number, (begin, end) in enumerate(bounds)
    ]


def by_entity(own: Pool, folder: Path) -> list[Path]:
    """Two files, each entity in one of them."""
    table = own.interleaved(random.Random(4))
    halves: list[list[int]] = [[], []]
    for row, key in enumerate(table[KEY].to_pylist()):
        halves[sum(map(ord, str(key))) % 2].append(row)
    # Arrow cannot take rows of every type.
    rows = [pa.concat_tables([table.slice(0, 0), *(table.slice(row, 1) for row in half)]) for half in halves]
    return [written(half, folder, f"{number}", group_rows=5) for number, half in enumerate(rows)]


def run_pools(spark: SparkSession, pools: list[Pool], folder: Path, way: Way) -> None:
    """All pools in one job of Spark's; each finds what the oracle says."""
    scheme, layout, workers, episodes = way
    frames: list[DataFrame] = []
    patterns_of: list[wayeb_py.Patterns] = []
    errors = []
    for number, own in enumerate(pools):
        place = folder / str(number)
        place.mkdir()
        patterns = own.compile()
        wanted = patterns.wanted
        reader = open_events(layout(own, place), wanted)
        # As many shards a worker as usual for the first pool, and for the others, whose entities are few, half of them:
        # an empty shard costs as much as a full one.
        with patch.object(planning, "SHARDS_A_WORKER", SHARDS_A_WORKER if number == 0 else 2):
            plan = planning.make_plan(patterns, reader, scheme, workers)
        assert plan.scheme == scheme
        found = output_schema(patterns, reader.schema, episodes)
        time_range = reader.selection.time_range
        spec = JobSpec(pack_patterns(patterns), reader.schema, found, time_range, episodes, plan.groups)
        context = schemes.JobContext.make(spark, spec)
        frames.append(plan.start(spark, context).selectExpr(f"{number} AS pool", "kind", "payload"))
        patterns_of.append(patterns)
        errors.append(context.errors)
    while len(frames) > 1:  # by pairs: Spark analyses the whole of a union again when another frame is added to it
        frames = [reduce(lambda one, other: one.union(other), frames[at : at + 2]) for at in range(0, len(frames), 2)]
    (union,) = frames
    kind = "episodes" if episodes else "detections"
    rows = union.where(union["kind"] == kind).collect()
    assert [error.first() for error in errors if error.first() is not None] == []
    for number, own in enumerate(pools):
        tables = [unpack(bytes(row.payload)) for row in rows if row.pool == number]
        own.check(tables, patterns_of[number], episodes)


@cache
def corpus_pools() -> list[Pool]:
    return pool((name, job_of(case), answer_of(case)) for name, case in CASES.items())


SHUFFLED: list[Way] = [("partition", anyhow, 1, False), ("partition", by_entity, 1, True)]
IN_PLACE: list[Way] = [("source", by_entity, 2, False), ("pattern", one_file, 2, True), ("pattern", anyhow, 3, False)]


def named(way: Way) -> str:
    scheme, layout, workers, _ = way
    return f"{scheme} {layout.__name__} {workers}"


def share_of(way: Way, pools: list[Pool]) -> list[Pool]:
    """Every second or third case of the largest pool, and of the small pools: each is in one share of either kind."""
    ways = SHUFFLED if way in SHUFFLED else IN_PLACE
    first, step = ways.index(way), len(ways)
    largest, *others = by_size(pools)
    return [largest.every(step, first), *others[first::step]]


def by_size(pools: list[Pool]) -> list[Pool]:
    return sorted(pools, key=lambda own: -len(own.cases))


@pytest.mark.parametrize("way", [*SHUFFLED, *IN_PLACE], ids=named)
def test_every_case_of_the_corpus_is_detected_by_some_schemes(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    run_pools(spark, share_of(way, corpus_pools()), tmp_path, way)


def test_the_shares_hold_every_case_both_shuffled_and_in_place() -> None:
    for ways in (SHUFFLED, IN_PLACE):
        shared = [case.name for way in ways for own in share_of(way, corpus_pools()) for case in own.cases]
        assert set(shared) == set(CASES)


@pytest.mark.soak
@pytest.mark.parametrize("way", [*SHUFFLED, *IN_PLACE], ids=named)
def test_every_case_of_the_corpus_is_detected_by_every_scheme(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    run_pools(spark, corpus_pools(), tmp_path, way)


SPARKS = {"string", "bool", "int8", "int16", "int32", "int64", "float", "double", "timestamp[us, tz=UTC]"}


def pools_in_types_of_spark() -> list[Pool]:
    jobs = {name: job_of(case) for name, case in CASES.items()}
    own_types = {name: job for name, job in jobs.items() if {str(one) for one in job.table.schema.types} <= SPARKS}
    assert len(own_types) > 200
    return pool((name, job, answer_of(CASES[name])) for name, job in own_types.items())


def find_in_data_frames(spark: SparkSession, pools: list[Pool]) -> None:
    for own in pools:
        patterns = own.compile()
        frame = spark.createDataFrame(own.interleaved(random.Random(3))).coalesce(1)
        own.check([recognise(frame, patterns, shards=2).toArrow()], patterns, episodes=False)


def test_most_cases_of_the_corpus_in_types_that_spark_has_are_detected_in_data_frames(spark: SparkSession) -> None:
    largest, *others = by_size(pools_in_types_of_spark())
    pools = [largest, *others[::8]]
    assert sum(len(own.cases) for own in pools) > 200
    find_in_data_frames(spark, pools)


@pytest.mark.soak
def test_every_case_of_the_corpus_in_types_that_spark_has_is_detected_in_data_frames(spark: SparkSession) -> None:
    find_in_data_frames(spark, pools_in_types_of_spark())


# ---- random cases

SETTINGS: list[dict[str, Any]] = [
    {"arrival": False, "lateness_s": Fraction(0), "forget_after_s": None, "dedupe": False, "order": None},
    {"arrival": False, "lateness_s": Fraction(0), "forget_after_s": Fraction(2), "dedupe": True, "order": "n"},
    {"arrival": True, "lateness_s": Fraction(1), "forget_after_s": None, "dedupe": True, "order": None},
]
N_RANDOM = 60


@cache
def random_pools() -> list[Pool]:
    """Random patterns and events, a few settings among all of them."""
    drawn: list[Scene] = []

    @hypothesis_settings(max_examples=N_RANDOM * N_EXAMPLES_FACTOR, database=None, phases=[Phase.generate])
    @given(scenes(max_events=20))
    def draw(scene: Scene) -> None:
        drawn.append(scene)

    draw()
    jobs = []
    for number, scene in enumerate(drawn):
        chosen = replace(scene, longest=number % 2 == 0, **SETTINGS[number % len(SETTINGS)])
        jobs.append((f"random {number}", chosen.job(), chosen.answer()))
    return pool(jobs)


@pytest.mark.parametrize(
    "way",
    [("source", by_entity, 3, True), ("partition", anyhow, 3, False), ("pattern", one_file, 3, True)],
    ids=named,
)
def test_random_patterns_detect_on_spark_what_the_definitions_say(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    run_pools(spark, random_pools(), tmp_path, way)
