"""Rows that are no events, and events that came too late, become a side file: counted by reason, never silently lost.

The file is NDJSON, one row each: `file`, `row` (in text files the line), `reason`, and `values` or `text`. It appears
when the run ends, also when the run ends because there are too many of them. A limit is a number of rows, or a share of
the rows read so far. The default is the greater of 1,000 rows and 1 %, and at the end no more than half of all rows: a
file in which two rows of three cannot be read is the wrong file, and not a file with a fault. A share that is judged
from the start would stop the run at a first bad row.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import AsideRow, Block, Unreadable, merge_unreadable
from wayeb_py.files.output.whole_file import WholeFile, begin_whole
from wayeb_py.files.stores import Location
from wayeb_py.tally import LATE_FOR_CLOCK

LATE, REPEATED = "late", "recognised before"


_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode  # `dumps` makes an encoder for every row

_NUMBERS = re.compile(r"(?<![\w.])(?<!UTF-)[-+]?(?<!UTF-)\d[\d.,:]*(?:[eE][-+]?\d+)?")
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")


def render_aside(row: AsideRow) -> bytes:
    """A row set aside as a line of NDJSON."""
    fields: dict[str, Any] = {"file": row.file, "row": row.row, "reason": row.reason}
    fields |= {"text": row.text} if row.text is not None else {"values": row.values}
    # A file's name may hold bytes that are no text; JSON has an escape for each such half of a surrogate pair.
    return (_encode(fields) + "\n").encode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class BadLimit:
    """How many rows may be set aside: the greater of a number and a share of the rows read.

    At the end a stricter share may apply; a single row never exceeds it.
    """

    rows: int = 1000
    share: float = 0.01
    share_at_end: float = 1.0

    @classmethod
    def parse(cls, text: str) -> BadLimit:
        """`500` rows, or `2%` of them."""
        number = text.strip()
        try:
            limit = cls(0, float(number[:-1]) / 100) if number.endswith("%") else cls(int(number), 0.0)
        except ValueError:
            raise ValueError(f"`{text}` is neither a number of rows nor a share such as 2%") from None
        if limit.rows < 0 or not 0 <= limit.share <= 1:
            raise ValueError(f"`{text}` is out of range")
        return limit

    def allows(self, n_bad: int, n_rows: int) -> bool:
        return n_bad <= max(self.rows, self.share * n_rows)

    def allows_at_end(self, n_bad: int, n_rows: int) -> bool:
        return self.allows(n_bad, n_rows) and (n_bad <= 1 or n_bad <= self.share_at_end * n_rows)

    def __str__(self) -> str:
        return f"{self.share:.6g} of all rows" if self.rows == 0 and self.share else f"{self.rows}"


DEFAULT_LIMIT = BadLimit(share_at_end=0.5)


def kind_of(reason: str) -> str:
    """The reason without what differs from row to row: numbers and quoted texts. There are few kinds of reasons."""
    return _NUMBERS.sub("N", _QUOTED.sub("`…`", reason))


class Aside:
    """Collects the rows set aside in a run, and writes them beside the output."""

    def __init__(self, path: Location | None, limit: BadLimit) -> None:
        self.path, self._limit = path, limit
        self._whole: WholeFile | None = None
        self.reasons: Counter[str] = Counter()
        self.unreadable: dict[str, Unreadable] = {}
        self.n_rows = 0
        self.n_bad = 0
        self.first: AsideRow | None = None

    def add_block(self, block: Block) -> None:
        """Takes over a block's faults; raises DataError if there are too many by now."""
        self.n_rows += block.n_rows
        merge_unreadable(self.unreadable, block.unreadable)
        for row in block.aside:
            self.first = self.first or row
            self._write(row)
        self.n_bad += len(block.aside)
        if not self._limit.allows(self.n_bad, self.n_rows):
            raise self._too_many()

    def add_rows(self, reason: str, rows: Iterable[dict[str, Any]]) -> None:
        """Takes over rows that the recogniser refused; rows that are only late are good, and no limit counts them."""
        for values in rows:
            row = AsideRow(None, None, reason, values)
            self._write(row)
            if reason not in (LATE, LATE_FOR_CLOCK, REPEATED):
                self.first = self.first or row
                self.n_bad += 1
        if not self._limit.allows(self.n_bad, self.n_rows):
            raise self._too_many()

    def _write(self, row: AsideRow) -> None:
        self.reasons[row.reason] += 1
        if self.path is None:
            return
        if self._whole is None:
            self._whole = begin_whole(self.path)
        self._whole.write(render_aside(row))

    def settle(self) -> None:
        """Judges all rows once they are read; raises DataError if too many of them are bad."""
        if not self._limit.allows_at_end(self.n_bad, self.n_rows):
            raise self._too_many("; if that is as it should be, run with --max-bad 100%")

    def _too_many(self, remedy: str = "") -> DataError:
        first = self.first
        assert first is not None
        seen = f"{self.n_bad:,} of {self.n_rows:,} rows cannot be read"
        limit = f"more than --max-bad allows ({self._limit})" if not remedy else "more than half"
        where = f"they are in {self.path}" if self.path is not None else "--aside FILE keeps them"
        return DataError(f"{seen}, {limit}; the first: {first.reason}", first.file, first.row, hint=f"{where}{remedy}")

    def commit(self) -> None:
        """Puts the side file in its place, and removes an old one that is out of date."""
        if self._whole is not None:
            self._whole.commit()
        elif self.path is not None:
            self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        if self._whole is not None:
            self._whole.discard()
