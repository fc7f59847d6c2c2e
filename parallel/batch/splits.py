"""Files become splits: events that one task reads by itself, by name, with our own reader.

Spark gets names and nothing else: turning a file's rows into Spark's and back costs more than recognising them. A
Parquet file can be cut between row groups; a text file is always one piece.

Two ways to cut. `even_splits` follows the order of arrival, for tasks that pass events on. `entity_splits` keeps each
entity in one split, for tasks that recognise where they read. That is certain with

- folders named by the key (`vehicle=17/`),
- a folder that `wayeb data convert` made, which is partitioned by a hash of the key,
- Parquet's statistics of the key, where row groups or files do not overlap,

and otherwise it is only an assumption: each task then reports the entities that it saw, and the driver compares them.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.block import Selection, TimeRange
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import BATCH_ROWS, EventReader, OpenedFile, open_file
from wayeb_py.files.stores import absolute
from wayeb_py.providers.convert import RECORD


@dataclass(frozen=True, slots=True)
class Split:
    """Events that one task reads: files, or row groups of them, in the order of arrival."""

    files: tuple[EventFile, ...]
    n_bytes: int
    numbers: tuple[int, ...] = ()  # the rank of each file in the order of arrival; empty where no caller needs it

    def open(self, wanted: Wanted, schema: pa.Schema, time_range: TimeRange) -> EventReader:
        """Its reader; the types are those of the whole input, which a single file may not show."""
        selection = Selection(wanted, schema, time_range, BATCH_ROWS)
        return EventReader([open_file(file, wanted) for file in self.files], selection, threads=1)

    def beginning(self) -> Split:
        """A piece of it that stands for the whole: its first row group, or file."""
        first = self.files[0]
        groups = None if first.groups is None else (first.groups[0], first.groups[0] + 1)
        return Split((replace(first, groups=groups),), self.n_bytes)

    def file_with(self, key: Any, events: EventReader) -> EventFile:
        """The first of its files that has the key; reads the files to find it."""
        wanted = Wanted(events.wanted.columns[:2], events.wanted.time_unit)
        schema = pa.schema([events.schema.field(name) for name in wanted.names])
        for file in self.files[:-1]:
            for batch in Split((file,), 0).open(wanted, schema, events.selection.time_range):
                keys = batch.column(0)
                plain = keys.dictionary_decode() if pt.is_dictionary(keys.type) else keys
                if pc.any(pc.is_in(plain, value_set=pa.array([key], plain.type))).as_py():
                    return file
        return self.files[-1]


@dataclass(frozen=True, slots=True)
class Layout:
    """Splits that keep each entity together, and what guarantees it; None where nothing does."""

    splits: tuple[Split, ...]
    promise: str | None


@dataclass(frozen=True, slots=True)
class _Unit:
    """The smallest piece that can be read by itself."""

    number: int  # its rank in the order of arrival
    file: EventFile
    n_bytes: int
    low: Any = None  # least and greatest key by the file's statistics
    high: Any = None


def even_splits(files: Sequence[OpenedFile], n_splits: int, selection: Selection | None = None) -> list[Split]:
    """The events in the order of arrival, cut into at most `n_splits` splits of about equal size.

    With a selection, it leaves out row groups whose statistics show that nothing in them is in its time range.
    """
    units = list(_units(files, selection=selection))
    total = sum(unit.n_bytes for unit in units)
    cut: dict[int, list[_Unit]] = {}
    before = 0
    for unit in units:
        middle = before + unit.n_bytes / 2
        cut.setdefault(min(n_splits - 1, int(middle * n_splits / max(1, total))), []).append(unit)
        before += unit.n_bytes
    return [_split(units) for units in cut.values()]


def whole(files: Sequence[OpenedFile]) -> Split:
    """Everything as one split."""
    return _split(_units(files))


def entity_splits(files: Sequence[OpenedFile], key: str) -> Layout:
    """Splits for tasks that recognise where they read."""
    by_value = _by_folder_of_key(files, key)
    if by_value is not None:
        return Layout(tuple(by_value), f"folders are named by `{key}`")
    converted = _by_converted_part(files, key)
    if converted is not None:
        return Layout(tuple(converted), "`wayeb data convert` partitioned it by entity")
    apart = _by_statistics(files, key)
    if apart is not None:
        return Layout(tuple(apart), f"the statistics of `{key}` do not overlap")
    by_folder: dict[Any, list[_Unit]] = {}
    for unit in _units(files, cut=False):
        # `bucket=3/day=…/x.parquet`: the data was split by the outermost folder first.
        outermost = unit.file.partitions[:1] or unit.file.path
        by_folder.setdefault(outermost, []).append(unit)
    return Layout(tuple(_split(units) for units in by_folder.values()), None)


def pack_splits(splits: Iterable[Split], n_tasks: int) -> list[Split]:
    """At most `n_tasks` splits of about equal size, the largest first; joins small ones.

    It sorts the files of a split by arrival again, so that an entity that is in two of them is read in order.
    """
    in_order = list(splits)
    bins: list[tuple[int, int, list[int]]] = [(0, number, []) for number in range(max(1, n_tasks))]
    for number in sorted(range(len(in_order)), key=lambda number: -in_order[number].n_bytes):
        n_bytes, slot, taken = heapq.heappop(bins)
        heapq.heappush(bins, (n_bytes + in_order[number].n_bytes, slot, [*taken, number]))
    packed = []
    for n_bytes, _, taken in sorted(bins, key=lambda one: (-one[0], one[1])):
        if taken:
            pieces = [piece for number in taken for piece in _numbered(in_order[number])]
            numbers, files = zip(*sorted(pieces, key=lambda piece: piece[0]), strict=True)
            packed.append(Split(files, n_bytes, numbers))
    return packed


def _numbered(split: Split) -> Iterator[tuple[int, EventFile]]:
    return zip(split.numbers, split.files, strict=True)


def _units(
    files: Sequence[OpenedFile], cut: bool = True, key: str | None = None, selection: Selection | None = None
) -> Iterator[_Unit]:
    number = 0
    for opened in files:
        # Executors have working folders of their own.
        file = replace(opened.file, path=absolute(opened.file.path))
        metadata = getattr(opened, "metadata", None)
        if metadata is not None and metadata.num_rows == 0 and cut:
            continue
        if metadata is None or not cut or metadata.num_row_groups < 2:
            groups = [] if metadata is None else range(metadata.num_row_groups)
            if groups and not any(_may_hold(opened, group, selection) for group in groups):
                continue
            low, high = _bounds(metadata, groups, key)
            yield _Unit(number, file, file.n_bytes, low, high)
            number += 1
            continue
        for group in range(metadata.num_row_groups):
            if not _may_hold(opened, group, selection):
                continue
            low, high = _bounds(metadata, [group], key)
            share = file.n_bytes * metadata.row_group(group).num_rows // max(1, metadata.num_rows)
            yield _Unit(number, replace(file, groups=(group, group + 1)), share, low, high)
            number += 1


def _may_hold(opened: Any, group: int, selection: Selection | None) -> bool:
    return selection is None or bool(opened.may_hold(group, selection))


def _split(units: Iterable[_Unit]) -> Split:
    """Units in the order of arrival; neighbouring row groups of a file become one piece of it again."""
    files: list[EventFile] = []
    numbers: list[int] = []
    n_bytes = 0
    for unit in sorted(units, key=lambda unit: unit.number):
        n_bytes += unit.n_bytes
        last, groups = files[-1] if files else None, unit.file.groups
        if (
            last is not None
            and groups is not None
            and last.groups is not None
            and (last.path, last.groups[1]) == (unit.file.path, groups[0])
        ):
            files[-1] = replace(last, groups=(last.groups[0], groups[1]))
        else:
            files.append(unit.file)
            numbers.append(unit.number)
    return Split(tuple(files), n_bytes, tuple(numbers))


def _by_folder_of_key(files: Sequence[OpenedFile], key: str) -> list[Split] | None:
    by_value: dict[str | None, list[_Unit]] = {}
    for unit, opened in zip(_units(files, cut=False), files, strict=True):
        named = dict(unit.file.partitions)
        if key not in named or key in opened.types:  # a column of the file itself takes precedence
            return None
        by_value.setdefault(named[key], []).append(unit)
    return [_split(units) for units in by_value.values()] if by_value else None


def _by_converted_part(files: Sequence[OpenedFile], key: str) -> list[Split] | None:
    """The parts of one conversion, or the equal parts of several that have as many of them."""
    counts = set()
    for folder in {Path(opened.file.path).parent for opened in files}:
        try:
            counts.add(json.loads((folder / RECORD).read_text())["done"]["partitions"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
    if len(counts) != 1 or any(not opened.columns or opened.columns[0] != key for opened in files):
        return None
    by_part: dict[str, list[_Unit]] = {}
    for unit in _units(files, cut=False):
        name = Path(unit.file.path).name
        if not name.startswith("part-"):
            return None
        by_part.setdefault(name, []).append(unit)
    return [_split(units) for units in by_part.values()]


def _by_statistics(files: Sequence[OpenedFile], key: str) -> list[Split] | None:
    """Runs of row groups whose ranges of keys overlap no other run's; None where that gives fewer than two splits."""
    units = list(_units(files, key=key))
    if any(unit.low is None for unit in units):
        return None
    clusters: list[list[_Unit]] = []
    reach: Any = None
    for unit in sorted(units, key=lambda unit: unit.low):
        if clusters and unit.low <= reach:
            clusters[-1].append(unit)
            reach = max(reach, unit.high)
        else:
            clusters.append([unit])
            reach = unit.high
    return [_split(cluster) for cluster in clusters] if len(clusters) > 1 else None


def _bounds(metadata: Any, groups: Iterable[int], key: str | None) -> tuple[Any, Any]:
    """Least and greatest key in row groups; None where the file does not say."""
    if key is None or metadata is None:
        return None, None
    lows, highs = [], []
    for group in groups:
        facts = metadata.row_group(group)
        index = next((i for i in range(facts.num_columns) if facts.column(i).path_in_schema == key), None)
        statistics = None if index is None else facts.column(index).statistics
        if statistics is None or not statistics.has_min_max:
            return None, None
        lows.append(statistics.min)
        highs.append(statistics.max)
    return (min(lows), max(highs)) if lows else (None, None)
