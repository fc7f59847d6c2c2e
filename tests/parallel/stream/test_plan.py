"""How a stream is spread over tasks: which scheme, how many shards, which group a pattern is in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")


import wayeb_py
from tests.parallel.stream.ship_events import SOURCE, make_events, write_files
from wayeb_py.errors import DataError
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.stream.plan import StreamPlan, plan_stream
from wayeb_py.parallel.stream.shard_packing import cut_ranges


@dataclass(frozen=True)
class TableLog:
    """A log of equal partitions, of which only the numbers matter."""

    name: str
    n_partitions: int

    def latest(self) -> Offsets:
        return {str(number): 10 for number in range(self.n_partitions)}


def spread(log: TableLog, asked: str = "auto", before: StreamPlan | None = None, **numbers: int | None) -> StreamPlan:
    asked_for: dict[str, int | None] = {"workers": None, "source_parallelism": None}
    patterns = wayeb_py.compile(SOURCE)
    return plan_stream(asked, patterns, log, pa.schema([]), before=before, **asked_for | numbers)  # type: ignore[arg-type]


def test_a_stream_is_recognised_where_it_is_read_unless_the_numbers_differ() -> None:
    log = TableLog("folder:/x", 2)
    assert spread(log).scheme == "source"
    assert spread(log, workers=2, source_parallelism=2).scheme == "source"
    assert spread(log, workers=1).scheme == "source"  # the partitions take turns
    assert spread(log, workers=4) == StreamPlan(
        "partition", "because the source has 2 partitions, and 4 are to recognise", 2, 8
    )
    assert spread(log, workers=4, source_parallelism=3).n_readers == 3
    assert spread(log, workers=1, source_parallelism=2).scheme == "partition"


def test_the_shards_of_a_checkpoint_stay_while_workers_come_and_go() -> None:
    begun = spread(TableLog("folder:/x", 2), workers=4)
    gone_on = spread(TableLog("folder:/x", 2), before=begun, workers=9)
    assert (gone_on.scheme, gone_on.n_shards) == ("partition", 8)
    assert StreamPlan.from_json(json.loads(json.dumps(begun.to_json()))) == begun
    with pytest.raises(DataError, match="begun with --scheme partition"):
        spread(TableLog("folder:/x", 2), "source", before=begun)


def test_a_topic_has_as_many_readers_as_partitions_and_says_so() -> None:
    with pytest.raises(DataError, match="the source has 2 partitions") as fault:
        spread(TableLog("kafka://localhost:9092/x", 2), source_parallelism=3)
    assert "--workers" in str(fault.value)
    with pytest.raises(DataError, match="would tear entities apart"):
        spread(TableLog("folder:/x", 2), "source", source_parallelism=3)


def test_patterns_stay_in_their_group_and_new_ones_go_where_the_least_is_to_do(tmp_path: Path) -> None:
    write_files(tmp_path / "source", make_events(500), 0, 1)
    log = FolderLog(tmp_path / "source", tmp_path / "journal")
    patterns = wayeb_py.compile(SOURCE)
    wanted = Wanted.from_needs(patterns.needs, None)
    schema = log.schema(wanted)
    assert schema is not None
    begun = plan_stream("pattern", patterns, log, schema, workers=3, source_parallelism=None)
    assert sorted(name for group in begun.groups for name in group) == sorted(patterns.names)
    assert len(begun.groups) == 3

    gone, kept = begun.groups[0], begun.groups[1]
    changed = wayeb_py.compile(
        "\n".join(line for line in SOURCE.splitlines() if not any(f"pattern {name} " in line for name in gone))
        + "\npattern Added := (speed > 9)\n"
    )
    gone_on = plan_stream("auto", changed, log, schema, workers=8, source_parallelism=None, before=begun)
    assert gone_on.groups == (("Added",), *begun.groups[1:])
    assert gone_on.groups[1] == kept


def test_ranges_are_cut_among_readers_without_a_gap() -> None:
    whole = [OffsetRange("a", 10, 110), OffsetRange("b", 0, 50), OffsetRange("c", 5, 5)]
    pieces = cut_ranges(whole, 6)
    assert len([piece for piece in pieces if piece.start < piece.end]) == 6
    for offsets in whole:
        own = [piece for piece in pieces if piece.partition == offsets.partition]
        assert [own[0].start, *(piece.end for piece in own)] == [*(piece.start for piece in own), offsets.end]
    assert pieces == sorted(pieces, key=lambda piece: (piece.partition, piece.start))


def test_what_looks_at_several_entities_has_one_shard() -> None:
    patterns = wayeb_py.compile("stream s { key id time t lateness 1 h }\npattern Gone := (x > 1) ; silence 1 h\n")
    log, schema = TableLog("folder:/x", 3), pa.schema([])

    def of_several(asked: str = "auto", before: StreamPlan | None = None) -> StreamPlan:
        return plan_stream(asked, patterns, log, schema, workers=1, source_parallelism=2, before=before)  # type: ignore[arg-type]

    begun = of_several()
    assert str(begun) == "scheme partition, because `Gone` looks at more than one entity's events: 2 readers, 1 shard"
    assert of_several("partition", begun) == begun
    for asked in ("source", "pattern"):
        with pytest.raises(DataError, match=f"the scheme `{asked}` moves no events between tasks, and `Gone` looks"):
            of_several(asked)
    for before in (StreamPlan("source", "", 3), StreamPlan("partition", "", 3, 8)):
        with pytest.raises(DataError, match=r"begun with (the scheme source|8 shards), and its state lies accordingly"):
            of_several(before=before)


def test_what_shares_its_entity_has_shards_where_several_recognise() -> None:
    text = "stream s { key id time t lateness 1 h position lon, lat }\npattern Gone := (x > 1) ; silence 1 h\n"
    pair = "pattern Meet for each pair a, b in s within 1 km fresh 1 min := any\n"
    log: Any = TableLog("folder:/x", 3)
    schema, both = pa.schema([]), wayeb_py.compile(text + pair)
    begun = plan_stream("auto", both, log, schema, workers=2, source_parallelism=None)
    assert str(begun) == (
        "scheme partition, because `Gone` looks at more than one entity's events, and 1 of 2 share their entity: "
        "3 readers, 4 shards by entity and one that has all events"
    )
    later = plan_stream("auto", both, log, schema, workers=9, source_parallelism=None, before=begun)
    assert (later.n_shards, later.has_all) == (5, True)
    assert StreamPlan.from_json(begun.to_json()) == begun
    older = {name: value for name, value in begun.to_json().items() if name not in ("n_parts", "starts_all")}
    went_on = plan_stream(
        "auto", both, log, schema, workers=2, source_parallelism=None, before=StreamPlan.from_json(older)
    )
    assert (went_on.n_parts, went_on.starts_all) == (0, False), "its state lies where it put it"
    only = plan_stream("auto", both.select(["Meet"]), log, schema, workers=2, source_parallelism=None)
    assert (only.n_shards, only.has_all) == (1, False)
