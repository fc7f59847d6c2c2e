"""Several logs as one: where they end together."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets
from wayeb_py.parallel.logs.several_logs import SeveralLogs


class Ending(Log):
    """A log that ends somewhere, or may have more."""

    def __init__(self, name: str, end: int | None) -> None:
        self._name, self._end = name, end

    @property
    def name(self) -> str:
        return self._name

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        return None

    def earliest(self) -> Offsets:
        return {"": 0}

    def latest(self) -> Offsets:
        return {"": 5}

    def ends(self) -> Offsets | None:
        return None if self._end is None else {"": self._end}

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        yield from ()

    def forget(self, before: Offsets) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize(("ends", "expected"), [((5, 7), {"0/": 5, "1/": 7}), ((5, None), None), ((None, None), None)])
def test_several_logs_end_when_all_of_them_do(ends: tuple[int | None, ...], expected: Offsets | None) -> None:
    assert SeveralLogs([Ending(str(nth), end) for nth, end in enumerate(ends)]).ends() == expected
