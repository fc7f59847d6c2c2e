"""Events in a row, as arrays by column where these are at hand, and as an Arrow batch for who wants one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


class EventSlice:
    """Some events in a row; making a batch of a few costs more than recognising them."""

    __slots__ = ()

    @property
    def columns(self) -> Mapping[str, Any] | None:
        """Numbers and times in ticks as arrays, texts and truths as lists, for the columns that a few events need; None
        where there is only the batch."""
        raise NotImplementedError

    def batch(self) -> pa.RecordBatch:
        """The events as a batch."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError
