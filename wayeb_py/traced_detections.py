"""Detections that refer to their patterns and to the events they were found in, so that they can be drawn and
explained."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.input_tables import as_table
from wayeb_py.engine.rows.detection_schema import IDENTITY
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.errors import DataError

if TYPE_CHECKING:
    from wayeb_py.view.notebook import MapPage
    from wayeb_py.why.explanation import Why

__all__ = ["Detections", "TracedDetections"]


class TracedDetections(Detections):
    """Detections of a table that the caller still has."""

    def __init__(self, found: Detections, patterns: CompiledPatterns, events: Any) -> None:
        super().__init__(found.to_arrow(), found.episodes())
        self._patterns, self._events = patterns, events

    def map(
        self, path: str | os.PathLike[str] | None = None, *, title: str = "wayeb", name: str | None = None
    ) -> MapPage:
        """The detections on a map, written to a path if one is given; a notebook shows it.

        `name` is the column with the entities' names; without it, the map guesses.
        """
        from wayeb_py.view.draw import draw_table, patterns_of_one_stream  # for start-up time
        from wayeb_py.view.notebook import MapPage  # for start-up time

        stream, patterns = patterns_of_one_stream(self._patterns)
        several = len(self._patterns.meaning.streams) > 1
        events = as_table(self._events[stream] if several else self._events)
        page = MapPage(draw_table(self._table, events, patterns=patterns, title=title, name=name))
        if path is not None:
            page.save(path)
        return page

    def why(self, detection: int | Mapping[str, Any] | Any) -> Why:
        """Why something was detected: a detection by its number, or its row, as a dict or as a row of a data frame."""
        from wayeb_py.run.whole_table import tables_by_stream  # for start-up time
        from wayeb_py.why.entity_words import words_of  # for start-up time
        from wayeb_py.why.explain import explain_event  # for start-up time
        from wayeb_py.why.pairs.explain import explain_pair_event  # for start-up time

        number = self._index(int(detection)) if isinstance(detection, Integral) else self._find(detection)
        row = self._table.slice(number, 1)
        entity = row.column("entity").cast(pa.string())[0].as_py()
        other = row.column("other").cast(pa.string())[0].as_py() if "other" in row.column_names else None
        pattern, place, seq = (row.column(name)[0].as_py() for name in ("pattern", "place", "seq"))
        if pattern in self._patterns.rule_names:
            raise DataError(f"`{pattern}` is a rule", hint="ask why of the patterns that it reads")
        patterns = self._patterns.select([pattern])
        tables = tables_by_stream(patterns, self._events)
        if other is not None:
            return explain_pair_event(patterns, tables, pattern, (entity, other), row.column("ts"), int(seq))
        ((name, part),) = patterns.by_stream.items()
        patterns = patterns.of_stream(part.stream)
        words = words_of(patterns, tables[name], entity)
        return explain_event(patterns, words, pattern, entity, row.column("ts"), int(seq), place)

    def _find(self, detection: Any) -> int:
        """The number of a row, by the columns that identify detections: pandas may change emitted values, such as 1 to
        1.0."""
        wanted = detection.to_dict() if hasattr(detection, "to_dict") else detection
        if isinstance(wanted, Mapping) and wanted.keys() == set(self._table.column_names):
            # pandas has NaN where a place is missing
            names = [name for name in IDENTITY if name in wanted]  # only patterns of pairs have another entity
            told = {name: None if wanted[name] != wanted[name] else wanted[name] for name in names}
            for number, row in enumerate(self):
                if all(row[name] == value for name, value in told.items()):
                    return number
        raise DataError("this is none of the detections", hint="give its number, or a row as iterating gives it")

    def _expressions(self) -> dict[str, str]:
        return {pattern.name: pattern.text for pattern in self._patterns.meaning.patterns}
