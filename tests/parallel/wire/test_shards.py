"""Keys become shards, for ever the same, and parcels come out of a shuffle in their order."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from wayeb_py.parallel.wire.packer import Packer, in_arrival_order
from wayeb_py.parallel.wire.parcel import Parcel
from wayeb_py.parallel.wire.routing import route_by_hash
from wayeb_py.parallel.wire.shards import routes, shard_of


def test_the_shard_of_a_key_is_for_ever() -> None:
    """These numbers are in checkpoints: changing them loses the state of every stream."""
    assert shard_of(pa.array(["ship-1", "ship-2", "Ærø", ""]), 16).tolist() == TEXT_SHARDS
    for type_ in (pa.int64(), pa.int32(), pa.int16()):
        assert shard_of(pa.array([1, 2, -3, 244], type_), 16).tolist() == NUMBER_SHARDS
    assert shard_of(pa.array([1, 2], pa.uint64()), 16).tolist() == NUMBER_SHARDS[:2]
    assert shard_of(pa.array(["ship-2", None, "ship-1"]).dictionary_encode(), 16).tolist() == [
        TEXT_SHARDS[1], 0, TEXT_SHARDS[0],
    ]  # fmt: skip
    assert shard_of(pa.array([2, None, 1]), 16).tolist() == [NUMBER_SHARDS[1], 0, NUMBER_SHARDS[0]]


TEXT_SHARDS = [11, 12, 4, 15]
NUMBER_SHARDS = [1, 14, 13, 9]


def test_keys_are_spread_evenly_even_if_they_are_numbered_in_steps() -> None:
    for step in (1, 2, 16, 1000):
        shards = shard_of(pa.array(range(0, 16_000 * step, step)), 16)
        assert all(800 < (shards == shard).sum() < 1200 for shard in range(16))


def test_spark_sends_every_shard_to_a_task_of_its_own(spark: SparkSession) -> None:
    for n_shards in (1, 2, 6, 16):
        frame = spark.createDataFrame([(route,) for route in routes(n_shards)], "route int")
        sent = frame.selectExpr(f"pmod(hash(route), {n_shards}) task").collect()
        assert [row.task for row in sent] == list(range(n_shards))


@pytest.mark.parametrize("seed", range(5))
def test_parcels_come_out_in_the_order_of_their_places(seed: int) -> None:
    """Rows that were shuffled before packing, by tasks that do not know of each other."""
    dice = random.Random(seed)
    n_rows, n_tasks = 400, 3
    rows = [
        {"ship": f"ship-{dice.randrange(9)}", "__place_0": f"file-{n // 150}", "__place_1": n % 150, "n": n}
        for n in range(n_rows)
    ]
    dealt: list[list[dict[str, Any]]] = [[] for _ in range(n_tasks)]
    for row in rows:
        dealt[dice.randrange(n_tasks)].append(row)
    parcels: list[Parcel] = []
    for task, own in enumerate(dealt):
        if task:  # the first task has them in order
            dice.shuffle(own)
        packer = Packer(route_by_hash(4), "ship", task)
        for start in range(0, len(own), 50):
            parcels += packer.add(pa.RecordBatch.from_pylist(own[start : start + 50]))
            parcels += packer.finish() if dice.random() < 0.5 else []
        parcels += packer.finish()
    dice.shuffle(parcels)
    seen = []
    for shard in range(4):
        batches = list(in_arrival_order(parcel for parcel in parcels if parcel.split == shard))
        numbers = [n for batch in batches for n in batch.column("n").to_pylist()]
        assert numbers == sorted(numbers)
        assert all((shard_of(batch.column("ship"), 4) == shard).all() for batch in batches)
        seen += numbers
    assert sorted(seen) == list(range(n_rows))
