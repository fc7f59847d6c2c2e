"""Checks that sorted events of one entity and time follow the order column that the stream names.

Only events that are promised to be sorted are checked; events in the order of arrival are put in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I32, I64
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.reorder import Rows, ranks_of_ties
from wayeb_py.errors import WayebError
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.derived_values import shift_by_entity


class Disorder(WayebError):  # noqa: N818
    """Events that were promised to be in the order of time are not; the recogniser cannot be used afterwards."""

    def __init__(self, entity: object, row: int) -> None:
        self.entity, self.row = entity, row
        super().__init__(entity, row)

    def __str__(self) -> str:
        return (
            f"the events of entity {self.entity!r} are not in the order of their times\n"
            '  = hint: sort them, or use order="arrival" with a lateness'
        )


class TieOrder:
    """The order column, and its value at each entity's last event."""

    def __init__(self, column: str, entities: Entities) -> None:
        self._column, self._entities = column, entities
        self._last_order: npt.NDArray[Any] | None = None

    def check_ties(
        self, orders: npt.NDArray[Any], entity: I32, link: I32, fresh: npt.NDArray[np.uint8], elapsed: I64, begin: int
    ) -> None:
        """Raises Disorder where events of one entity and time are not in the order of the order column."""
        last = self._orders_so_far(orders)
        before = np.zeros(len(orders), dtype=orders.dtype)
        shift_by_entity(orders, entity, link, fresh, last, before)
        last[entity] = orders
        wrong = np.flatnonzero((elapsed == 0) & (orders < before))
        if len(wrong):
            row = int(wrong[0])
            raise Disorder(self._entities.keys(entity[row : row + 1])[0].as_py(), begin + row)

    def check_repeated(self, rows: Rows, repeated: npt.NDArray[np.uint8]) -> None:
        """Raises Disorder where the order column puts an event that is to be dropped before the one that stays."""
        orders = self.orders_of(rows)
        last = self._orders_so_far(orders)
        if repeated.any():
            by_entity = np.argsort(rows.entity, kind="stable")
            entity, stays = rows.entity[by_entity], repeated[by_entity] == 0
            at = np.maximum.accumulate(np.where(stays, np.arange(len(entity)), 0))  # the row that stays, if it is here
            is_here = stays[at] & (entity[at] == entity)
            kept = np.where(is_here, orders[by_entity][at], last[entity])
            wrong = by_entity[orders[by_entity] < kept]
            if len(wrong):
                row = int(wrong.min())
                raise Disorder(self._entities.keys(rows.entity[row : row + 1])[0].as_py(), row)
        stay = repeated == 0
        last[rows.entity[stay]] = orders[stay]

    def orders_of(self, rows: Rows) -> npt.NDArray[Any]:
        """The values of the order column, as numbers in the same order."""
        return np.ascontiguousarray(ranks_of_ties(rows.batch.column(self._column)))

    def _orders_so_far(self, orders: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[entity]: the order of its last event; the lowest where an earlier run has recognised that event, which is
        final."""
        lowest = -np.inf if orders.dtype.kind == "f" else np.iinfo(np.int64).min
        n = len(self._entities)
        if self._last_order is None or len(self._last_order) < n:
            before = np.zeros(0, dtype=orders.dtype) if self._last_order is None else self._last_order
            self._last_order = lengthened(before, with_room(n), lowest)
        return self._last_order
