"""Forecasts as an operator: events as they come become the forecasts at each of them, and what is known is saved.

A recogniser reads the events and finds their order; beside it, every entity's word walks through the nodes of each
model. Both are saved together: the nodes lie in the order of the recogniser's entities. A node means nothing without
its model, so a state that was saved with another one is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I32
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.entity_recogniser import Aside, EntityRecogniser
from wayeb_py.engine.saved.operators import ENTITIES, OperatorState, pack_operators, state_of, unpack_operators
from wayeb_py.engine.saved.packing import arrays_of, pack_arrays, unpack_state
from wayeb_py.engine.saved.state_checks import between, telling_misfits
from wayeb_py.errors import DataError
from wayeb_py.forecast.forecaster import Forecaster, forecast_schema
from wayeb_py.forecast.tables import ForecastTables, reading_also
from wayeb_py.tally import Tally

FORECASTS = "forecasts"


class ForecastOperator:
    """Makes the forecasts of some patterns at each event that it is fed; those below `at_least` are left out.

    `order` is "sorted" where the events of each entity come in the order of time, as for a recogniser. `aside` has the
    rows that were left out, each with the reason.
    """

    kind = FORECASTS

    def __init__(
        self,
        patterns: CompiledPatterns,
        tables: Sequence[ForecastTables],
        *,
        at_least: float = 0.0,
        order: Literal["arrival", "sorted"] = "arrival",
    ) -> None:
        patterns = reading_also(patterns, *(own.model.by for own in tables))
        self.patterns = patterns  # with the columns that the models read
        ((_, part),) = patterns.by_stream.items()
        self._forecaster = Forecaster(patterns, tables, at_least)
        self._recogniser = EntityRecogniser(part.single, order=order, needs=part.needs)
        self._recogniser.watcher = self._forecaster
        self._digest = _digest(tables)

    @property
    def counts(self) -> Tally:
        """How many events, entities and late ones there were."""
        return self._recogniser.counts

    @property
    def aside(self) -> Aside:
        """The rows without key or time and those that came too late; the caller takes them out."""
        return self._recogniser.aside

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the forecasts for events of this schema; raises where the patterns do not fit."""
        self._recogniser.bind(schema)
        time_type = self._recogniser.nothing().to_arrow().schema.field("ts").type
        return forecast_schema(self._recogniser.entities.key_type, time_type, self._forecaster.has_places)

    def feed(self, events: pa.RecordBatch) -> pa.Table:
        """The forecasts at some more events, in their order."""
        self._recogniser.feed(events)
        return self._take()

    def finish(self) -> pa.Table:
        """The forecasts at the events that were waited for (`lateness`)."""
        self._recogniser.finish()
        return self._take()

    def _take(self) -> pa.Table:
        made = self._forecaster.take()
        if made is not None:
            return made
        if self._recogniser.event_schema is None:
            raise ValueError("no batch has been fed yet")
        return self.bind(self._recogniser.event_schema).empty_table()

    def save(self) -> bytes:
        """The state: that of the recogniser, and the node of every entity in each model."""
        n = self.counts.entities if self._recogniser.event_schema is None else len(self._recogniser.entities)
        nodes: dict[str, I32] = {}
        names: dict[str, list[str]] = {}
        for at, one in enumerate(self._forecaster.words):
            if one.places is None:
                nodes[str(at)] = _first(one.walk.node_of, n)
                continue
            reader, walk = one.places
            known = reader.save(n)
            nodes[str(at)] = _first(walk.far.node_of, n)
            nodes[f"{at}.entity"] = known["entity"]
            names[str(at)] = [one.place_names[place] for place in known["place"].tolist()]
            nodes[f"{at}.node"] = walk.node_of[known["slot"]]
        return pack_operators(
            [
                OperatorState(ENTITIES, "", self._recogniser.save()),
                OperatorState(FORECASTS, self._digest, pack_arrays({"places": names}, nodes, {})),
            ]
        )

    def restore(self, data: bytes) -> None:
        """Continues from a saved state; DataError if other models made it."""
        states = unpack_operators(data)
        nodes = state_of(states, FORECASTS, self._digest, "")
        if not nodes:
            raise DataError(
                "this state was not saved by forecasts with the same models and patterns",
                hint="go on with the models that it was saved with, or start without it",
            )
        with telling_misfits():
            header, payload = unpack_state(nodes)
            arrays = arrays_of(payload)
            for at, one in enumerate(self._forecaster.words):
                node_of = arrays[str(at)].astype(np.int32)
                between(node_of, "the node of an entity", 0, len(one.walk))
                if one.places is None:
                    one.walk.node_of = node_of
                    continue
                reader, walk = one.places
                entity, node = (arrays[f"{at}.{name}"].astype(np.int32) for name in ("entity", "node"))
                between(node, "the node of a place", 0, len(one.walk))
                between(entity, "the entity of a place", 0, len(node_of))
                number = {name: place for place, name in enumerate(one.place_names)}
                place = np.array([number.get(name, -1) for name in header["places"][str(at)]], dtype=np.int32)
                still = place >= 0  # a place that is gone from its file is not forecast any more
                reader.restore(entity[still], place[still])
                walk.far.node_of, walk.node_of = node_of, node[still]
        entities = state_of(states, ENTITIES, "", "")
        if entities:
            self._recogniser.restore(entities)


def _first(node_of: I32, n: int) -> I32:
    """The nodes of the first n entities; those that have not been seen are at the beginning of their word."""
    found: I32 = np.zeros(n, dtype=np.int32)
    known = min(n, len(node_of))
    found[:known] = node_of[:known]
    return found


def _digest(tables: Sequence[ForecastTables]) -> str:
    """A digest that changes with everything that gives a node its meaning."""
    digest = hashlib.sha256()
    for own in tables:
        digest.update(own.model.automaton.fingerprint.encode())
        digest.update(np.ascontiguousarray(own.nodes.next_node).tobytes())
    return digest.hexdigest()[:32]
