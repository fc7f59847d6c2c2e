"""Raw AIS sentences become blocks of events: fragments joined across lines, bad checksums counted.

A line is a sentence `!AIVDM,…*hh`, after a tag block (`\\s:station,c:1443650402*5C\\`) or a number that says when it
was received, or before one; or the line before it is a `$PGHP` sentence with the time, as the receivers of the Danish
authority write it. AIS itself sends only the second of the minute, so a sentence without a time of reception cannot be
an event. Position reports (types 1, 2, 3, 18, 19, 27) are events; what types 5, 19 and 24 say about a vessel's name and
type is added to the positions that follow. Sentences are taken apart here and decoded by pyais, whose own stream reader
drops the time of reception and bad sentences without a word.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.block import AsideRow, Block
from wayeb_py.files.formats.lines import read_lines
from wayeb_py.providers.formats import NMEA, SHIP_TYPES, STATUSES, TS

POSITIONS = frozenset((1, 2, 3, 18, 19, 27))
STATICS = frozenset((5, 19, 24))
MOST_UNFINISHED = 1000  # messages whose other fragments are still awaited

_SENTENCE = re.compile(rb"[!$][A-Z]{2}VD[MO],[^*\r\n]*\*[0-9A-Fa-f]{2}")
# $PGHP,1,YYYY,M,D,h,m,s,ms,country,region,transponder,…*hh
_RECEIVED = re.compile(
    rb"\$PGHP,1,(\d{4}),(\d{1,2}),(\d{1,2}),(\d{1,2}),(\d{1,2}),(\d{1,2}),(\d{1,3}),[^*\r\n]*\*[0-9A-Fa-f]{2}"
)
_TAG_TIME = re.compile(rb"[\\,]c:(\d{9,16})")
_TAGS = re.compile(rb"\\([^\\]*)\\")
_GROUP = re.compile(rb"(?:^|,)g:\d+-\d+-(\d+)")
_STATION = re.compile(rb"(?:^|,)s:([^,*]+)")
_LAST_MS = 253_402_300_799_999  # the end of the year 9999
_BARE_TIME = re.compile(rb"(?<![\d.])(\d{9,13}(?:\.\d+)?)(?![\d.])")


@dataclass(slots=True)
class _Unfinished:
    """Fragments of one message, with the line and the time of the first."""

    parts: dict[int, bytes]
    line: int
    time_ms: int | None


@dataclass(slots=True)
class Vessel:
    """What a vessel has said of itself."""

    name: str | None = None
    type: str | None = None


@dataclass(slots=True)
class SentenceReader:
    """Reads one file of sentences; its knowledge of vessels and fragments lasts from block to block."""

    file: EventFile
    unfinished: OrderedDict[tuple[bytes, ...], _Unfinished] = field(default_factory=OrderedDict)
    origins: dict[tuple[bytes, ...], bytes] = field(default_factory=dict)  # of unfinished messages, the last of a name
    vessels: dict[int, Vessel] = field(default_factory=dict)
    received_ms: int | None = None  # the time that a `$PGHP` gives the next sentence
    learned: list[int] = field(default_factory=list)  # vessels about which a line said something new
    now_ms: Callable[[], int] | None = None  # the time of received sentences that carry none

    schema = NMEA.schema

    def blocks(self) -> Iterator[Block]:
        """The events in the order of the lines that complete them."""
        for lines in read_lines(self.file, block_bytes=1 << 20, quotes=False):
            block = Block(n_bytes=lines.n_bytes)
            rows: list[dict[str, Any]] = []
            for number, line in enumerate(lines.data.splitlines(), start=lines.first_line):
                if line.strip() and not line.startswith(b"#"):
                    self._take(line, number, block, rows)
            if rows:
                block.batches.append(pa.RecordBatch.from_pylist(rows, schema=self.schema))
            yield block
        yield Block(n_rows=len(self.unfinished), aside=self.rest())

    def take(self, line: bytes, number: int) -> tuple[list[dict[str, Any]], list[AsideRow]]:
        """The events that a line completes, and the rows of it, or of earlier fragments, that are no events."""
        block, rows = Block(), list[dict[str, Any]]()
        self.learned.clear()
        if line.strip() and not line.startswith(b"#"):
            self._take(line, number, block, rows)
        return rows, block.aside

    def rest(self) -> list[AsideRow]:
        """The fragments whose others have not come, and never will; they are forgotten."""
        block = Block()
        for unfinished in self.unfinished.values():
            self._set_aside(
                block, unfinished.line, "a fragment without the others", b" ".join(unfinished.parts.values())
            )
        self.unfinished.clear()
        self.origins.clear()
        return block.aside

    def _set_aside(self, block: Block, line: int, reason: str, text: bytes) -> None:
        block.n_rows += 1
        block.aside.append(AsideRow(self.file.path, line, reason, None, text.decode("ascii", "replace")))

    def _take(self, line: bytes, number: int, block: Block, rows: list[dict[str, Any]]) -> None:
        found = _SENTENCE.search(line)
        told = _RECEIVED.search(line) if b"$PGHP" in line else None
        if told is not None:
            self.received_ms = self._told_ms(told, line, number, block)
            if found is None:
                return
        if found is None:
            self._set_aside(block, number, "not an AIS sentence", line)
            return
        sentence = found[0]
        before_ms, self.received_ms = self.received_ms, None
        if _checksum(sentence) != int(sentence[-2:], 16):
            self._set_aside(block, number, "bad checksum", line)
            return
        fields = sentence.split(b",")
        time_ms = before_ms if before_ms is not None else _received_ms(line, found.start(), found.end())
        if time_ms is None and self.now_ms is not None:
            time_ms = self.now_ms()
        if len(fields) != 7 or not fields[1].isdigit() or not fields[2].isdigit():
            self._set_aside(block, number, "not an AIS sentence", line)
        elif time_ms is not None and time_ms > _LAST_MS:
            self._set_aside(block, number, "the time cannot be read", line)
        elif fields[1] == b"1":
            self._decode([sentence], number, time_ms, block, rows)
        else:
            self._join(fields, _origin(line[: found.start()]), sentence, number, time_ms, block, rows)

    def _told_ms(self, told: re.Match[bytes], line: bytes, number: int, block: Block) -> int | None:
        """The time of a `$PGHP`; a line without one goes aside, and so does the sentence after it."""
        if _checksum(told[0]) != int(told[0][-2:], 16):
            self._set_aside(block, number, "bad checksum", line)
            return None
        year, month, day, hour, minute, second, ms = (int(part) for part in told.groups())
        try:
            instant = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            self._set_aside(block, number, "the time cannot be read", line)
            return None
        return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) + ms

    def _join(
        self,
        fields: list[bytes],
        origin: bytes,
        sentence: bytes,
        number: int,
        time_ms: int | None,
        block: Block,
        rows: list[dict[str, Any]],
    ) -> None:
        """Keeps a fragment until its message is complete; a fragment that comes again begins a new message. One that
        does not say where it comes from goes on with the last message of its name."""
        short = (fields[0], fields[1], fields[3], fields[4])
        name = (*short, origin or self.origins.get(short, b""))
        part, n_parts = int(fields[2]), int(fields[1])
        known = self.unfinished.get(name)
        if known is not None and part in known.parts:
            self._forget(name)
            self._set_aside(block, known.line, "a fragment without the others", b" ".join(known.parts.values()))
            known = None
        if known is None:
            name = (*short, origin)
            known = self.unfinished[name] = _Unfinished({}, number, time_ms)
            self.origins[short] = origin
        known.parts[part] = sentence
        if known.time_ms is None:
            known.time_ms = time_ms
        if len(known.parts) == n_parts:
            self._forget(name)
            self._decode([known.parts[i] for i in sorted(known.parts)], known.line, known.time_ms, block, rows)
        elif len(self.unfinished) > MOST_UNFINISHED:
            oldest = self._forget(next(iter(self.unfinished)))
            self._set_aside(block, oldest.line, "a fragment without the others", b" ".join(oldest.parts.values()))

    def _forget(self, name: tuple[bytes, ...]) -> _Unfinished:
        *short, origin = name
        if self.origins.get(tuple(short)) == origin:
            del self.origins[tuple(short)]
        return self.unfinished.pop(name)

    def _decode(
        self, sentences: list[bytes], number: int, time_ms: int | None, block: Block, rows: list[dict[str, Any]]
    ) -> None:
        import pyais
        from pyais.exceptions import AISBaseException

        try:
            message: dict[str, Any] = pyais.decode(*sentences).asdict(enum_as_int=True)
        except (AISBaseException, ValueError, IndexError, KeyError, TypeError):
            self._set_aside(block, number, "the message cannot be decoded", b" ".join(sentences))
            return
        kind, mmsi = message.get("msg_type"), message.get("mmsi")
        if kind in STATICS and mmsi is not None:
            self._learn(int(mmsi), message)
        if kind not in POSITIONS or mmsi is None:
            return  # a good message, and no event
        if time_ms is None:
            self._set_aside(block, number, "no time", b" ".join(sentences))
            return
        block.n_rows += 1
        rows.append(self._event(int(mmsi), time_ms, message))

    def _learn(self, mmsi: int, message: dict[str, Any]) -> None:
        vessel = self.vessels.setdefault(mmsi, Vessel())
        before = vessel.name, vessel.type
        name = (message.get("shipname") or "").strip(" @")
        vessel.name = name or vessel.name
        vessel.type = SHIP_TYPES.get(int(message.get("ship_type") or 0), vessel.type)
        if (vessel.name, vessel.type) != before:
            self.learned.append(mmsi)

    def _event(self, mmsi: int, time_ms: int, message: dict[str, Any]) -> dict[str, Any]:
        vessel = self.vessels.get(mmsi, Vessel())
        status = message.get("status")
        return {
            "mmsi": mmsi,
            "ts": pa.scalar(time_ms, TS).as_py(),
            "lon": message.get("lon"),
            "lat": message.get("lat"),
            "speed": message.get("speed"),
            "course": message.get("course"),
            "heading": message.get("heading"),
            "type": vessel.type,
            "name": vessel.name,
            "status": None if status is None else STATUSES.get(int(status)),
        }


def _checksum(sentence: bytes) -> int:
    total = 0
    for octet in sentence[1:-3]:
        total ^= octet
    return total


def _origin(before: bytes) -> bytes:
    """What tag blocks before a fragment say about where it comes from: their group, or else their station."""
    tags = b",".join(_TAGS.findall(before))
    group, station = _GROUP.search(tags), _STATION.search(tags)
    if group is not None:
        return b"g:" + group[1]
    return b"" if station is None else b"s:" + station[1]


def _received_ms(line: bytes, begin: int, end: int) -> int | None:
    """When the sentence was received, from its tag block or a number beside it: seconds, or milliseconds if large."""
    found = _TAG_TIME.search(line, 0, begin) or _BARE_TIME.search(line[:begin]) or _BARE_TIME.search(line[end:])
    if found is None:
        return None
    value = float(found[1])
    return round(value) if value >= 1e11 else round(value * 1000)
