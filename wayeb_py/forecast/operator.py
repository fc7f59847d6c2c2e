"""Forecasts as an operator: events as they come become the forecasts at each of them, and what is known is saved.

A recogniser reads the events and finds their order; beside it, every entity's word, and that of every pair, walks
through the nodes of each model. Both are saved together: the nodes lie in the order of the recogniser's entities, and
of its pairs. A node means nothing without its model, so a state that was saved with another one is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.entity_recogniser import Aside, EntityRecogniser
from wayeb_py.engine.recogniser import Order, Recogniser
from wayeb_py.engine.rows.joined_schema import as_instants
from wayeb_py.engine.saved.operators import OperatorState, pack_operators, state_of, unpack_operators
from wayeb_py.engine.saved.packing import arrays_of, pack_arrays, unpack_state
from wayeb_py.engine.saved.state_checks import between, telling_misfits
from wayeb_py.errors import DataError
from wayeb_py.forecast.forecaster import Forecaster, ForecastRows, OneForecast, forecast_schema
from wayeb_py.forecast.tables import ForecastTables, reading_also, without_rules
from wayeb_py.forecast.words.pair_words import pairs_of
from wayeb_py.tally import Tally

if TYPE_CHECKING:
    from wayeb_py.forecast.pair_forecaster import PairForecaster

FORECASTS = "forecasts"
TIMES = ("ts", "from", "until")


class ForecastOperator:
    """Makes the forecasts of some patterns at each event that it is fed; those below `at_least` are left out.

    `order` is "sorted" where the events of each entity come in the order of time, as for a recogniser. `aside` has the
    rows that were left out, each with the reason. Pairs follow the clock of all streams, as their detections do: their
    forecasts come once it has passed their events.
    """

    kind = FORECASTS

    def __init__(
        self,
        patterns: CompiledPatterns,
        tables: Sequence[ForecastTables],
        *,
        at_least: float = 0.0,
        order: Order | Mapping[str, Order] = "arrival",
    ) -> None:
        patterns = reading_also(without_rules(patterns), *(own.model.by for own in tables))
        self.patterns = patterns  # with the columns that the models read
        self._recogniser = Recogniser(patterns, order=order)
        rows = ForecastRows(tables)
        self._of_stream: dict[str, Forecaster] = {}
        for name, part in patterns.by_stream.items():
            own = [one for one in tables if one.model.automaton.name in part.single.names]
            if own:
                self._of_stream[name] = Forecaster(part.single, own, at_least, rows)
                self._entities(name).watcher = self._of_stream[name]
        self._of_pairs: PairForecaster | None = None
        operator = pairs_of(self._recogniser)
        if operator is not None:
            from wayeb_py.forecast.pair_forecaster import PairForecaster  # for start-up time: most have no pairs

            own = [one for one in tables if one.model.automaton.pair is not None]
            self._of_pairs = operator.watcher = PairForecaster(operator, own, rows, at_least)
        self._digest = _digest(tables)

    def _entities(self, stream: str) -> EntityRecogniser:
        operator = self._recogniser.of(stream)
        assert isinstance(operator, EntityRecogniser)
        return operator

    @property
    def counts(self) -> Tally:
        """How many events, entities and late ones there were."""
        return self._recogniser.counts

    @property
    def aside(self) -> Aside:
        """The rows without key or time and those that came too late; the caller takes them out."""
        return self._recogniser.aside

    @property
    def behind(self) -> str:
        """The stream that the clock waits for, whose events are best read next."""
        return self._recogniser.behind

    @property
    def has_clock(self) -> bool:
        """Whether some forecasts wait for a clock over all entities."""
        return self._recogniser.has_clock

    def follow(self, partitions: Sequence[str], away: Sequence[str] = (), stream: str | None = None) -> pa.Table:
        """Tells the clock the partitions of a stream and which of them it must not wait for (`away`); returns the
        forecasts that this decides."""
        self._recogniser.follow(partitions, away, stream)
        return self._take()

    def bind(self, schema: pa.Schema, stream: str | None = None) -> pa.Schema:
        """The columns of the forecasts for events of this schema, as far as the types of all streams are known; raises
        where the patterns do not fit."""
        self._recogniser.bind(schema, stream)
        return self.schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of all forecasts, as far as their types are known."""
        known = self._recogniser.schema
        has_places = any(one.has_places for one in self._of_stream.values())
        return forecast_schema(known.key_type, known.time_type, has_places, self._of_pairs is not None)

    def feed(self, events: pa.RecordBatch, stream: str | None = None, partition: str | None = None) -> pa.Table:
        """The forecasts at some more events, those of one pattern in their order: of many events all of one pattern may
        come before those of the next, and those of pairs come last."""
        self._recogniser.feed(events, stream, partition)
        return self._take()

    def finish(self) -> pa.Table:
        """The forecasts at the events that were waited for (`lateness`)."""
        self._recogniser.finish()
        return self._take()

    def _take(self) -> pa.Table:
        made: list[tuple[pa.Table | None, str | None]] = [
            (one.take(), self.patterns.by_stream[name].stream.time_unit) for name, one in self._of_stream.items()
        ]
        if self._of_pairs is not None:
            made.append((self._of_pairs.take(), self._recogniser.schema.time_unit))
        known = [(table, unit) for table, unit in made if table is not None]
        if len(made) == len(known) == 1:
            return known[0][0]
        schema = self.schema
        if not known and any(pa.types.is_null(field.type) for field in schema):
            raise ValueError("no batch has been fed yet")
        tables = [_fit(table, schema, unit) for table, unit in known if table.num_rows]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def save(self) -> bytes:
        """The state: that of the recogniser, and the node of every entity in each model."""
        nodes: dict[str, I32] = {} if self._of_pairs is None else self._of_pairs.save()
        names: dict[str, list[str]] = {}
        for stream, one in self._words():
            at, entities = one.number, self._entities(stream)
            n = entities.counts.entities if entities.event_schema is None else len(entities.entities)
            if one.places is None:
                nodes[str(at)] = _first(one.walk.node_of, n)
                continue
            reader, walk = one.places
            known = reader.save(n)
            nodes[str(at)] = _first(walk.far.node_of, n)
            nodes[f"{at}.entity"] = known["entity"]
            names[str(at)] = [one.place_names[place] for place in known["place"].tolist()]
            nodes[f"{at}.node"] = walk.node_of[known["slot"]]
        saved = self._recogniser.save()
        return pack_operators(
            [
                *(unpack_operators(saved) if saved else ()),
                OperatorState(FORECASTS, self._digest, pack_arrays({"places": names}, nodes, {})),
            ]
        )

    def restore(self, data: bytes) -> None:
        """Continues from a saved state; DataError if other models made it."""
        nodes = state_of(unpack_operators(data), FORECASTS, self._digest, "")
        if not nodes:
            raise DataError(
                "this state was not saved by forecasts with the same models and patterns",
                hint="go on with the models that it was saved with, or start without it",
            )
        self._recogniser.restore(data)
        with telling_misfits():
            header, payload = unpack_state(nodes)
            arrays = arrays_of(payload)
            for _, one in self._words():
                _restore(one, arrays, header["places"])
            if self._of_pairs is not None:
                self._of_pairs.restore(arrays)

    def _words(self) -> list[tuple[str, OneForecast]]:
        return [(stream, one) for stream, own in self._of_stream.items() for one in own.words]


def _restore(one: OneForecast, arrays: Mapping[str, npt.NDArray[Any]], places: Mapping[str, list[str]]) -> None:
    """Puts every entity's word, and those of its places, where they were."""
    at = one.number
    node_of = arrays[str(at)].astype(np.int32)
    between(node_of, "the node of an entity", 0, len(one.walk))
    if one.places is None:
        one.walk.node_of = node_of
        return
    reader, walk = one.places
    entity, node = (arrays[f"{at}.{name}"].astype(np.int32) for name in ("entity", "node"))
    between(node, "the node of a place", 0, len(one.walk))
    between(entity, "the entity of a place", 0, len(node_of))
    number = {name: place for place, name in enumerate(one.place_names)}
    place = np.array([number.get(name, -1) for name in places[str(at)]], dtype=np.int32)
    still = place >= 0  # a place that is gone from its file is not forecast any more
    reader.restore(entity[still], place[still])
    walk.far.node_of, walk.node_of = node_of, node[still]


def _fit(table: pa.Table, schema: pa.Schema, unit: str | None) -> pa.Table:
    """A part's forecasts with the columns and types of all; `unit` is that of times which are numbers."""
    if table.schema.equals(schema):
        return table
    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        if column.type != field.type and pa.types.is_timestamp(field.type) and field.name in TIMES:
            column = as_instants(column, unit, field.type)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


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
