"""Cases as data: a table of a TOML file becomes a file of patterns, its events, and what they should give.

A case names its columns freely and gives them one word an event, `-` for missing. The defaults are a single entity `e`,
a second between events, and types that follow from the words. The oracle and Arrow get their values by different ways
from the same words, so that neither trusts the other's rounding.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.oracle import TICKS_PER_S, Cell, Column, Event, nearest_float

CORPUS = Path(__file__).parent / "corpus"
KEY, TIME = "id", "ts"
TEXT_TYPES = {"text": pa.string(), "large_text": pa.large_string(), "text_view": pa.string_view()}


@dataclass(frozen=True)
class Typed:
    """The words of a column and the name of its type."""

    type_name: str
    words: tuple[str, ...]

    def column(self) -> Column:
        """The type as the oracle knows it."""
        if match := re.fullmatch(r"float(16|32|64)", self.type_name):
            return Column("float", float_bits=int(match[1]))  # type: ignore[arg-type]
        if re.fullmatch(r"u?int(8|16|32|64)", self.type_name):
            return Column("integer")
        if self.type_name.startswith("decimal"):
            return Column("decimal")
        if match := re.fullmatch(r"timestamp\[(\w+).*\]", self.type_name):
            return Column("time", ticks_per_s=TICKS_PER_S[match[1]])
        return Column("bool" if self.type_name == "bool" else "text")

    def cells(self) -> list[Cell]:
        """The values as the oracle knows them: exact."""
        return [None if word == "-" else self._cell(word) for word in self.words]

    def _cell(self, word: str) -> Cell:
        column = self.column()
        if column.kind == "float":
            if word.lstrip("-") in ("nan", "inf"):
                return float(word)
            return float(nearest_float(Fraction(word), column.float_bits))
        if column.kind == "integer":
            return int(word)
        if column.kind == "decimal":
            return Fraction(word)
        if column.kind == "time":
            return ticks(word, column.ticks_per_s)
        return word == "true" if column.kind == "bool" else word

    def array(self) -> pa.Array:
        """The values as an Arrow array of the type."""
        words = [None if word == "-" else word for word in self.words]
        if self.type_name == "float16":
            return pa.array([None if word is None else np.float16(word) for word in words], pa.float16())
        if self.type_name.startswith("float"):
            numbers = [None if word is None else float(word) for word in words]
            return pa.array(numbers, getattr(pa, self.type_name)(), from_pandas=False)
        if self.type_name.startswith(("int", "uint")):
            return pa.array([None if word is None else int(word) for word in words], getattr(pa, self.type_name)())
        if match := re.fullmatch(r"decimal(128|256)\((\d+), (\d+)\)", self.type_name):
            arrow_type = getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
            return pa.array([None if word is None else Decimal(word) for word in words], arrow_type)
        if match := re.fullmatch(r"timestamp\[(\w+)(?:, (.+))?\]", self.type_name):
            counts = [None if word is None else ticks(word, TICKS_PER_S[match[1]]) for word in words]
            return pa.array(counts, pa.timestamp(match[1], match[2]))
        if self.type_name == "bool":
            return pa.array([None if word is None else word == "true" for word in words], pa.bool_())
        if self.type_name == "dictionary":
            return pa.array(words, pa.string()).dictionary_encode()
        return pa.array(words, TEXT_TYPES[self.type_name])


def ticks(word: str, ticks_per_s: int) -> int:
    """The ticks since 1970 UTC of a time, written as a date or as ticks."""
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    since = datetime.fromisoformat(word).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * ticks_per_s // 10**6


def type_of(words: Sequence[str]) -> str:
    """The type that the words of a column suggest."""
    present = [word for word in words if word != "-"]
    if all(re.fullmatch(r"-?\d+", word) for word in present):
        return "int64"
    if all(re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?|nan|-?inf", word) for word in present):
        return "float64"
    return "bool" if set(present) <= {"true", "false"} else "text"


@dataclass(frozen=True)
class Case:
    """A file of patterns, events in the order of their arrival, and what they should give.

    Detections are [pattern, entity, at, from], episodes [pattern, entity, from, to, how many]; `emits` has what each
    detection emits, in their order, and "-" for what is missing; `episodes_emit` the same of the episodes.
    """

    name: str
    source: str
    columns: dict[str, Typed] = field(repr=False)
    time_unit: str | None = "s"  # None where the time is a timestamp
    longest: bool = False
    arrival: bool = False  # events are taken as they arrive; otherwise the whole table is put in order
    detects: list[tuple[Any, ...]] = field(default_factory=list, repr=False)
    episodes: list[tuple[Any, ...]] | None = field(default=None, repr=False)
    emits: list[tuple[Any, ...]] | None = field(default=None, repr=False)
    episodes_emit: list[tuple[Any, ...]] | None = field(default=None, repr=False)
    n_late: int | None = None
    n_duplicates: int | None = None
    n_unread: int | None = None

    def events(self) -> list[Event]:
        """The events as the oracle knows them."""
        cells = {name: typed.cells() for name, typed in self.columns.items()}
        return [{name: column[row] for name, column in cells.items()} for row in range(len(cells[TIME]))]

    def table(self) -> pa.Table:
        """The events as an Arrow table."""
        return pa.table({name: typed.array() for name, typed in self.columns.items()})

    def ticks_per_s(self) -> int:
        return TICKS_PER_S[self.time_unit] if self.time_unit else self.columns[TIME].column().ticks_per_s


def stream_block(time_unit: str | None, lines: str = "") -> str:
    """A stream block with the key and time that every case has, and further lines."""
    unit = f" in {time_unit}" if time_unit else ""
    return f"stream events {{\nkey {KEY}\ntime {TIME}{unit}\n{lines}\n}}\n"


def read_case(fields: dict[str, Any]) -> Case:
    """The case that a table of a TOML file describes."""
    fields = dict(fields)
    name, types = fields.pop("name"), fields.pop("types", {})
    fields.pop("in", None)  # the same in the languages of other engines, for `wayeb bench row_patterns`
    text = fields.pop("text") if "text" in fields else f"pattern P := {fields.pop('pattern')}"
    stream, time_unit = fields.pop("stream", ""), fields.pop("time_unit", "s")
    settings = {name: fields.pop(name) for name in ("longest", "arrival") if name in fields}
    counts = {f"n_{name}": fields.pop(name) for name in ("late", "duplicates", "unread") if name in fields}
    detects, episodes, emits = fields.pop("detects"), fields.pop("episodes", None), fields.pop("emits", None)
    episodes_emit = fields.pop("episodes_emit", None)
    words = {column: tuple(v.split() if isinstance(v, str) else v) for column, v in fields.items()}
    several_entities = KEY in words
    n_events = len(next(iter(words.values())))
    words = {KEY: ("e",) * n_events, TIME: tuple(map(str, range(n_events)))} | words
    assert {len(column) for column in words.values()} == {n_events}, f"{name}: columns of different lengths"
    columns = {column: Typed(types.get(column) or type_of(cells), cells) for column, cells in words.items()}
    if columns[TIME].column().kind == "time":
        time_unit = None
    several_patterns = len(re.findall(r"^pattern ", text, re.MULTILINE)) > 1

    def full(row: list[Any]) -> tuple[Any, ...]:
        pattern = row[0] if several_patterns else "P" if "pattern P " in text else re.findall(r"pattern (\w+)", text)[0]
        rest = row[1:] if several_patterns else row
        return (pattern, *rest) if several_entities else (pattern, "e", *rest)

    return Case(
        name,
        stream_block(time_unit, stream) + text,
        columns,
        time_unit,
        detects=[full(row) for row in detects],
        episodes=None if episodes is None else [full(row) for row in episodes],
        emits=_emitted(emits),
        episodes_emit=_emitted(episodes_emit),
        **settings,
        **counts,
    )


def _emitted(rows: list[list[Any]] | None) -> list[tuple[Any, ...]] | None:
    return None if rows is None else [tuple(None if cell == "-" else cell for cell in row) for row in rows]


def corpus() -> Iterator[tuple[str, Case]]:
    """All cases of the corpus, each with the name under which a test shows it."""
    for path in sorted(CORPUS.glob("*.toml")):
        for fields in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
            yield f"{path.stem}/{fields['name']}", read_case(fields)
