"""Lines as they are sent become records that hold JSON objects: NDJSON as it is, CSV by its header, AIS decoded.

A decoder belongs to one sender: a CSV sender begins with its own header, and the fragments of a sentence come from one
station. All senders share what AIS says about vessels; the journal notes it, so that a start knows it.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.block import AsideRow
from wayeb_py.parallel.receive.received_buffer import Note, Record, fault
from wayeb_py.providers.nmea import SentenceReader, Vessel

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
LONGEST_LINE = 1 << 20


class Decoder(Protocol):
    """Turns the lines of one sender into records."""

    def decode(self, line: bytes) -> list[Record]:
        """The records of a line, which may complete something that earlier lines began."""

    def decode_all(self, lines: Iterable[bytes]) -> list[Record]:
        """The records of several lines."""
        return [record for line in lines for record in self.decode(line)]

    def end(self) -> list[Record]:
        """What earlier lines began and no later one will complete: the sender is gone."""
        return []


class JsonLines(Decoder):
    """Each line is an object."""

    def decode(self, line: bytes) -> list[Record]:
        return self.decode_all([line])

    def decode_all(self, lines: Iterable[bytes]) -> list[Record]:
        return [line for line in map(bytes.strip, lines) if line]


class CsvLines(Decoder):
    """The first line names the columns; each further line is an event. A value in quotes has no line end in it. A line
    that has the names again, in whatever order, comes from a logger that has begun again."""

    def __init__(self) -> None:
        self._header: list[str] | None = None

    def decode(self, line: bytes) -> list[Record]:
        if not line.strip():
            return []
        try:
            values = next(csv.reader([line.decode("utf-8").rstrip("\r\n")]))
        except (UnicodeDecodeError, csv.Error):
            return [fault("cannot be read", line)]
        if self._header is None or (values[0] in self._header and sorted(values) == sorted(self._header)):
            self._header = [name.strip().removeprefix("\ufeff") for name in values]
            return []
        if len(values) != len(self._header):
            return [fault(f"not as many values as the header has columns, {len(self._header)}", line)]
        pairs = zip(self._header, values, strict=True)
        return [("{" + ", ".join(f"{json.dumps(n)}: {_json(v)}" for n, v in pairs) + "}").encode()]


def _json(text: str) -> str:
    """A value of CSV as JSON: a number as it is spelt, nothing as missing, anything else as text."""
    if not text:
        return "null"
    return text if _NUMBER.fullmatch(text) else json.dumps(text)


class Sentences(Decoder):
    """AIS sentences of one sender; without a time of their own they have that of their arrival."""

    def __init__(self, vessels: dict[int, Vessel], clock: Clock = SYSTEM) -> None:
        self._reader = SentenceReader(EventFile("", "ndjson"), vessels=vessels)
        self._reader.now_ms = lambda: round(clock.wall_s() * 1000)
        self._number = 0

    def decode(self, line: bytes) -> list[Record]:
        self._number += 1
        rows, aside = self._reader.take(line, self._number)
        records: list[Record] = _faults(aside)
        for mmsi in self._reader.learned:
            vessel = self._reader.vessels[mmsi]
            records.append(Note(json.dumps([mmsi, vessel.name, vessel.type]).encode()))
        return [*records, *map(_event, rows)]

    def end(self) -> list[Record]:
        return _faults(self._reader.rest())


def _faults(aside: Iterable[AsideRow]) -> list[Record]:
    return [fault(row.reason, (row.text or "").encode()) for row in aside]


def read_vessels(notes: list[bytes]) -> dict[int, Vessel]:
    """The vessels in the notes of earlier runs."""
    return {mmsi: Vessel(name, kind) for mmsi, name, kind in map(json.loads, notes)}


def _event(row: dict[str, Any]) -> bytes:
    row = row | {"ts": row["ts"].isoformat().replace("+00:00", "Z")}
    return json.dumps(row).encode()


def decoder_of(form: str, notes: list[bytes]) -> Callable[[], Decoder]:
    """Makes a decoder for each sender, for lines of a form: ndjson, csv or nmea."""
    if form == "nmea":
        vessels = read_vessels(notes)
        return lambda: Sentences(vessels)
    return CsvLines if form == "csv" else JsonLines
