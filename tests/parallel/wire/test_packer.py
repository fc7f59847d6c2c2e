"""Events become parcels and events again: nothing is lost or changes places, and of many parcels come few batches."""

from __future__ import annotations

import pyarrow as pa

from wayeb_py.parallel.wire.packer import OPENED_ROWS, Packer, in_arrival_order, open_events
from wayeb_py.parallel.wire.parcel import Parcel
from wayeb_py.parallel.wire.routing import Destination, Routing, route_to_groups

N_SHARDS = 50


def events(n: int) -> pa.RecordBatch:
    words = pa.array([f"v{row * row % 97}" for row in range(n)])
    return pa.record_batch({"id": words.dictionary_encode(), "n": pa.array(range(n)), "word": words})


def test_small_parcels_are_opened_together_in_their_order() -> None:
    packer = Packer(Routing(N_SHARDS, (), tuple(Destination(shard) for shard in range(N_SHARDS))), "id", task=3)
    batch = events(20_000)
    packed = [*packer.add(batch), *packer.finish()]
    assert len(packed) > N_SHARDS // 2
    opened = list(open_events(parcel.payload for parcel in packed))
    assert len(opened) == 1
    rows = {row["n"]: row for row in opened[0].to_pylist()}
    assert [rows[n] for n in range(20_000)] == batch.to_pylist()
    places = {row["n"]: place for place, row in enumerate(opened[0].to_pylist())}
    by_entity: dict[str, list[int]] = {}
    for row in batch.to_pylist():
        by_entity.setdefault(row["id"], []).append(places[row["n"]])
    assert all(own == sorted(own) for own in by_entity.values())


def test_large_parcels_stay_as_they_are() -> None:
    packer = Packer(route_to_groups(1), "id", task=0)
    payloads = []
    for _ in range(3):
        payloads += [parcel.payload for parcel in [*packer.add(events(OPENED_ROWS)), *packer.finish()]]
    assert [batch.num_rows for batch in open_events(payloads)] == [OPENED_ROWS] * 3
    assert list(open_events([])) == []


def test_every_group_of_patterns_gets_a_parcel_of_its_own() -> None:
    packer = Packer(route_to_groups(3), "id", task=1)
    packed = [*packer.add(events(100)), *packer.finish()]
    assert [parcel.split for parcel in packed] == [0, 1, 2]
    assert len({parcel.payload for parcel in packed}) == 1


def test_parcels_of_several_tasks_in_any_order_come_out_as_they_arrived() -> None:
    packed: list[Parcel] = []
    for task in range(3):
        packer = Packer(route_to_groups(1), "id", task, gathered_rows=10)
        for start in range(0, 40, 7):
            rows = range(40 * task + start, 40 * task + min(40, start + 7))
            packed += packer.add(pa.record_batch({"id": pa.array(["a"] * len(rows)), "n": pa.array(rows)}))
        packed += packer.finish()
    assert len(packed) == 9
    opened = list(in_arrival_order(packed[::-1]))
    assert [n for batch in opened for n in batch.column("n").to_pylist()] == list(range(120))


def test_a_text_of_few_words_here_and_many_there_is_put_in_order_by_place() -> None:
    """A dictionary in one parcel is plain text in another, and the two overlap."""
    packed: list[Parcel] = []
    for task, n_words in enumerate((3, 5000)):
        packer = Packer(route_to_groups(1), "id", task)
        places = list(range(task, 12_000, 2))
        words = [f"w{n % n_words}" for n in places]
        packed += packer.add(pa.record_batch({"id": words, "word": words, "__place_0": places}))
        packed += packer.finish()
    rows = [row for batch in in_arrival_order(packed) for row in batch.to_pylist()]
    assert [row["__place_0"] for row in rows] == list(range(12_000))
    assert all(row["word"] == f"w{n % (5000 if n % 2 else 3)}" for n, row in enumerate(rows))
