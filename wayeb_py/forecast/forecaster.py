"""Events become rows of forecasts: at each event, a watcher looks up the forecast of the node that the entity's word
has reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import F64, I32, I64, U8, Bool
from wayeb_py.columns import TICKS_PER_S
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.arrow_values import RecycledArrays, reused_memory
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.forecast.kernels import IN_EVENTS, IN_TIME, ForecastColumns, LookedUp, make_rows, write_spans
from wayeb_py.forecast.tables import ForecastTables
from wayeb_py.forecast.words.joint_walk import MOST_NODES, JointWalk, marked_rows, tell
from wayeb_py.forecast.words.place_words import PlaceReader, PlaceWalk
from wayeb_py.forecast.words.symbols import SymbolReader, Walk
from wayeb_py.growing_arrays import with_room

ENOUGH_ROWS = 1 << 14
MANY_EVENTS = 1 << 9  # of one chunk: from here on each pattern gets batches of its own
NAMES = pa.dictionary(pa.int32(), pa.string())  # few of them, in many rows


def forecast_schema(
    key: pa.DataType, time: pa.DataType, has_places: bool = False, has_pairs: bool = False
) -> pa.Schema:
    """The columns of a forecast, for events with keys and times of these types: `place` where patterns are for each,
    `other` where they are over pairs."""
    return pa.schema(
        [
            ("pattern", NAMES), *([("place", pa.string())] if has_places else []),
            ("entity", key), *([("other", key)] if has_pairs else []),
            ("ts", time), ("seq", pa.int64()), ("probability", pa.float64()),
            ("from", time), ("until", time), ("from_events", pa.int64()), ("until_events", pa.int64()),
            ("horizon", NAMES),
        ]
    )  # fmt: skip


class ForecastRows:
    """The nodes that words have reached become columns of forecasts; `tables` are all that are forecast, by number."""

    def __init__(self, tables: Sequence[ForecastTables]) -> None:
        self.tables = tables
        self.names = pa.array([own.model.automaton.name for own in tables], pa.string())
        self.horizons = pa.array([own.horizon.text for own in tables], pa.string())
        self._in_time = np.array([own.horizon.seconds is not None for own in tables], dtype=np.uint8)
        self._table: tuple[int, I64, I64] | None = None  # ticks per second, the tables of all, where each begins
        self._constants: dict[int, tuple[pa.Array, ...]] = {}

    def columns(
        self, numbers: Sequence[int], parts: Sequence[tuple[I32, I32, I64]], ts: I64, entity: I32, seq: I64,
        ticks_per_s: int, has_places: bool = False,
    ) -> ForecastColumns:  # fmt: skip
        """The rows of a chunk at which some models have forecasts, with their nodes and places, become columns: in the
        order of events, and of the models at one event."""
        if self._table is None or self._table[0] != ticks_per_s:
            tables = [node_table(own, ticks_per_s) for own in self.tables]
            first = np.cumsum([0, *(len(table) // 3 for table in tables)])
            self._table = ticks_per_s, np.concatenate(tables), first
        _, table, first = self._table
        own = np.array(numbers, dtype=np.int32)
        looked_up = LookedUp(
            np.concatenate([row for row, _, _ in parts]), np.concatenate([node for _, node, _ in parts]),
            np.concatenate([place for _, _, place in parts]) if has_places else np.zeros(0, dtype=np.int64),
            np.cumsum([0, *(len(row) for row, _, _ in parts)]), np.zeros(len(parts), dtype=np.int64), own,
            self._in_time[own], first[own], table, table.view(np.float64),
        )  # fmt: skip
        longs, n = np.int64, len(looked_up.row)
        made = ForecastColumns(
            reused_memory(n, np.int32), reused_memory(n if has_places else 0, longs), reused_memory(n, np.int32),
            reused_memory(n, longs), reused_memory(n, longs), reused_memory(n, np.float64),
            reused_memory(n, longs), reused_memory(n, longs), reused_memory(n, np.uint8),
        )  # fmt: skip
        make_rows(ts, entity, seq, tuple(looked_up), tuple(made))
        return made

    def constants(self, number: int, n: int) -> tuple[pa.Array, pa.Array]:
        """The name and the horizon of one model, n times."""
        known = self._constants.get(number)
        if known is None or len(known[0]) < n:
            which = pa.array(np.full(n, number, dtype=np.int32))
            known = self._constants[number] = tuple(
                pa.DictionaryArray.from_arrays(which, words) for words in (self.names, self.horizons)
            )
        return known[0].slice(0, n), known[1].slice(0, n)

    def spans(self, made: ForecastColumns, times: Callable[[I64], pa.Array]) -> list[pa.Array]:
        """Where intervals begin and end, in time and in events."""
        return [
            *(_where(times(ends), made.mark, IN_TIME) for ends in (made.first, made.last)),
            *(_where(pa.array(ends), made.mark, IN_EVENTS) for ends in (made.first, made.last)),
        ]


class Forecaster:
    """Makes forecasts of some patterns, over the events that one recogniser reads; those below `at_least` are left
    out. `rows` knows all that are forecast, where these are only some."""

    def __init__(
        self,
        patterns: CompiledPatterns,
        tables: Sequence[ForecastTables],
        at_least: float = 0.0,
        rows: ForecastRows | None = None,
    ) -> None:
        self._rows = ForecastRows(tables) if rows is None else rows
        every = self._rows.tables
        numbers = [next(i for i, other in enumerate(every) if other is own) for own in tables]
        self._one = [OneForecast(patterns, every[number], at_least, number) for number in numbers]
        # Of chunks with few forecasts, with time, entity and number: a batch of rows costs by its columns.
        self._gathered: list[ForecastColumns] = []
        self.has_places = any(own.model.automaton.plan is not None for own in tables)
        for one in self._one:
            one.beside_places = self.has_places
        self._n_gathered = 0
        self._memory = RecycledArrays()
        self._joint: tuple[Cohort, JointWalk] | None = None
        self._any_likely: Bool = np.zeros(0, dtype=bool)  # [joint node]
        self._told_by: ToldByJointNode | None = None
        self._binding: Binding | None = None
        self._waiting: list[pa.RecordBatch] = []
        self.schema: pa.Schema | None = None

    def watch(self, binding: Binding, cohort: Cohort, chunk: Chunk, found: list[Found], rows: Rows, begin: int) -> None:
        """Makes the forecasts of a chunk."""
        if self.schema is None:
            self.bind(binding)
        own = [one for one in self._one if one.reader.is_of(cohort)]
        self._step_together(own, binding, cohort, chunk)
        if len(chunk.ts) >= MANY_EVENTS and not self.has_places:
            every = [one for one in own if one.is_every]
            if every:
                self._make_rows()  # the rows of a pattern stay in the order of events
                self._waiting += self._at_every_event(every, binding, cohort, chunk, rows, begin)
                own = [one for one in own if not one.is_every]
        parts = [one.look_up(binding, cohort, chunk, rows, begin) for one in own]
        n = sum(len(row) for row, _, _ in parts)
        if not n:
            return
        if self._binding is not binding:
            self._make_rows()
            self._binding = binding
        numbers = [one.number for one in own]
        self._gathered.append(
            self._rows.columns(numbers, parts, chunk.ts, chunk.entity, chunk.seq, chunk.ticks_per_s, self.has_places)
        )
        self._n_gathered += n
        if self._n_gathered >= ENOUGH_ROWS:
            self._make_rows()

    def _step_together(self, own: Sequence[OneForecast], binding: Binding, cohort: Cohort, chunk: Chunk) -> None:
        """Steps the models that read the same codes of the events at once, where there are several."""
        together = [one for one in own if one.may_join]
        codes = [one.reader.codes(cohort, chunk) for one in together]
        if self._joint is not None and self._joint[0] is not cohort:
            self._part()
        if self._joint is None:
            address = {code.__array_interface__["data"] for code, _ in codes}
            if len(together) < 2 or len(address) > 1:
                return
            walk = JointWalk([one.walk for one in together], [symbol_of_code for _, symbol_of_code in codes])
            if not walk.is_possible:
                for one in together:
                    one.may_join = False
                return
            self._joint = cohort, walk
        walk = self._joint[1]
        reached = walk.step(codes[0][0], chunk, len(binding.entities))
        rows: I32 | None = None
        if not all(one.is_every for one in together):
            rows = marked_rows(reached, self._likely(walk, together))
        for model, one in enumerate(together):
            one.joined = reached, walk.nodes(model), rows
        if len(walk) > MOST_NODES:  # what is looked up for each joint node would not stay in the cache
            self._part()
            for one in together:
                one.may_join = False

    def _likely(self, walk: JointWalk, together: Sequence[OneForecast]) -> Bool:
        """[joint node]: whether a model has a forecast there."""
        if len(self._any_likely) != len(walk):
            self._any_likely = np.zeros(len(walk), dtype=bool)
            for model, one in enumerate(together):
                self._any_likely |= one.likely_nodes[walk.nodes(model)]
        return self._any_likely

    def _part(self) -> None:
        """Gives every model the nodes of its own words."""
        if self._joint is not None:
            self._joint[1].release()
            self._joint, self._told_by, self._any_likely = None, None, np.zeros(0, dtype=bool)

    def _at_every_event(
        self, own: Sequence[OneForecast], binding: Binding, cohort: Cohort, chunk: Chunk, rows: Rows, begin: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of models that have one at every event, pattern by pattern: all share the events' columns, and only
        what each says of them is written."""
        n = len(chunk.ts)
        key, time = (rows.batch.column(name).slice(begin, n) for name in (binding.key, binding.time))
        if key.type != binding.entities.key_type:
            key = binding.entities.keys(chunk.entity)
        if time.type != binding.rows.schema.time_type:
            time = binding.rows.times(chunk.ts)
        seq = self._memory.take(n, np.int64)
        seq[:] = chunk.seq
        of_event = [key, time, pa.array(seq)]
        for one, told in zip(own, self._told(own, binding, cohort, chunk, rows, begin), strict=True):
            spans = self._spans(one, told, binding, chunk)
            name, horizon = self._rows.constants(one.number, n)
            probability = pa.array(told.probability)
            yield pa.RecordBatch.from_arrays([name, *of_event, probability, *spans, horizon], schema=self.schema)

    def _told(
        self, own: Sequence[OneForecast], binding: Binding, cohort: Cohort, chunk: Chunk, rows: Rows, begin: int
    ) -> list[Told]:
        """What models say at every event: all that were stepped together in one pass, the others one by one."""
        n, ticks_per_s = len(chunk.ts), chunk.ticks_per_s
        joined = [(one, one.joined) for one in own if one.joined is not None]
        found = {}
        if joined:
            reached = joined[0][1][0]
            by = self._told_by
            if by is None or by.ticks_per_s != ticks_per_s:
                by = self._told_by = ToldByJointNode([one for one, _ in joined], ticks_per_s)
            by.learn([node_of for _, (_, node_of, _) in joined])
            room = self._memory.take(n * len(joined), np.float64)
            row, node = tell(reached, by.probability, by.has_span, room)
            for nth, (one, _) in enumerate(joined):
                found[one.number] = Told(room[nth * n : nth * n + n], row, node, by.tables[nth])
                one.joined = None
        for one in own:
            if one.number not in found:
                room = self._memory.take(n, np.float64)
                row, node = one.tell(binding, cohort, chunk, rows, begin, room)
                found[one.number] = Told(room, row, node, one.table(ticks_per_s))
        return [found[one.number] for one in own]

    def _spans(self, one: OneForecast, told: Told, binding: Binding, chunk: Chunk) -> list[pa.Array]:
        """Where the intervals of one model begin and end, in time and in events."""
        n, in_time = len(chunk.ts), one.tables.horizon.seconds is not None
        types = [binding.rows.schema.time_type] * 2 + [pa.int64()] * 2
        spans = [_nulls(n, type_) for type_ in types]
        if not len(told.row):
            return spans
        type_ = types[0] if in_time else types[2]
        is_ticks = pa.types.is_timestamp(type_) and TICKS_PER_S[type_.unit] == chunk.ticks_per_s
        room = self._memory.take(2 * n, np.int64)
        if in_time and not is_ticks:
            room[:] = 0  # what is not filled in must be within the reach of the type
        known: U8 = np.zeros((n + 7) // 8, dtype=np.uint8)
        n_known = write_spans(told.row, told.node, told.table, chunk.ts, in_time, room[:n], room[n:], known)
        for place, ends in enumerate((room[:n], room[n:]), 0 if in_time else 2):
            if in_time and not is_ticks:
                spans[place] = _known(binding.rows.times(ends), known, n_known)
            elif n_known:  # without a copy
                spans[place] = pa.Array.from_buffers(type_, n, [pa.py_buffer(known), pa.py_buffer(ends)], n - n_known)
        return spans

    def bind(self, binding: Binding) -> None:
        """Learns the types of keys and times."""
        self.schema = forecast_schema(binding.entities.key_type, binding.rows.schema.time_type, self.has_places)

    @property
    def words(self) -> list[OneForecast]:
        """Where the words of the entities are, model by model; a caller may change it."""
        self._part()
        return self._one

    def take(self) -> pa.Table | None:
        """The forecasts since the last call, those of one pattern in the order of events; None before the first
        event."""
        if self.schema is None:
            return None
        self._make_rows()
        made, self._waiting = self._waiting, []
        return pa.Table.from_batches(made, schema=self.schema)

    def _make_rows(self) -> None:
        """Makes rows of what is gathered, all patterns together: what they share is made once, and nothing is put in
        order afterwards."""
        binding, gathered = self._binding, self._gathered
        if binding is None or not gathered:
            return
        self._gathered, self._n_gathered = [], 0
        made = gathered[0]
        if len(gathered) > 1:
            made = ForecastColumns._make(np.concatenate(arrays) for arrays in zip(*gathered, strict=True))
        which = pa.array(made.which)
        arrays = [
            pa.DictionaryArray.from_arrays(which, self._rows.names),
            *([binding.rows.place_names(made.place)] if self.has_places else []),
            binding.entities.keys(made.entity),
            binding.rows.times(made.ts),
            pa.array(made.seq),
            pa.array(made.probability),
            *self._rows.spans(made, binding.rows.times),
            pa.DictionaryArray.from_arrays(which, self._rows.horizons),
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))


class Told(NamedTuple):
    """What one model says at every event, and the rows that may have an interval, each with its place in a table."""

    probability: F64
    row: I32
    node: I32
    table: I64  # as `node_table` says


class ToldByJointNode:
    """What several models say at each joint node."""

    def __init__(self, models: Sequence[OneForecast], ticks_per_s: int) -> None:
        self.ticks_per_s, self._n_known = ticks_per_s, 0
        self._of_model = [one.table(ticks_per_s).reshape(-1, 3) for one in models]
        self.has_span: U8 = np.zeros(0, dtype=np.uint8)  # [joint node]: whether one of them has an interval
        self.probability: F64 = np.zeros(0)  # [model * joint nodes + joint node], with room for more nodes
        self.tables: list[I64] = []  # [model], as `node_table` says

    def learn(self, nodes: Sequence[I32]) -> None:
        """Looks up what is said at joint nodes that are new; nodes[model][joint node]."""
        n, known = len(nodes[0]), self._n_known
        if n > len(self.has_span):
            room, known = with_room(n), 0
            self.has_span, self.probability = np.zeros(room, dtype=np.uint8), np.zeros(len(nodes) * room)
            self.tables = [np.zeros(3 * room, dtype=np.int64) for _ in nodes]
        if known == n:
            return
        probability = self.probability.reshape(len(nodes), -1)
        for model, (table, node_of) in enumerate(zip(self._of_model, nodes, strict=True)):
            told = table[node_of[known:]]
            self.tables[model].reshape(-1, 3)[known:n] = told
            probability[model, known:n] = told[:, 0].view(np.float64)
            self.has_span[known:n] |= told[:, 1] >= 0
        self._n_known = n


class OneForecast:
    """The forecasts of one model, and where every entity's word is in it."""

    def __init__(self, patterns: CompiledPatterns, tables: ForecastTables, at_least: float, number: int) -> None:
        self.tables, self.number = tables, number
        self.beside_places = False
        self._n_nodes = tables.probability.shape[1]
        self.reader = SymbolReader.of(tables.model.automaton, patterns)
        self.walk = Walk(tables.nodes.next_node)
        self.walk.mark_likely(tables.probability >= at_least)
        self.places: tuple[PlaceReader, PlaceWalk] | None = None
        plan = tables.model.automaton.plan
        if plan is not None:
            self.places = PlaceReader(plan, self.reader.runnable), PlaceWalk(tables.nodes.next_node)
            lookup = patterns.runnables[self.reader.runnable].lookup
            self.place_names = [] if lookup is None else list(lookup.names)
        self._is_likely = tables.probability >= at_least
        self.is_every = plan is None and bool(self._is_likely.all())
        self.walk.mark_spans(tables.first >= 0)
        self.may_join = plan is None and tables.model.by is None
        self.likely_nodes = self._is_likely[0]
        # Where it was stepped with others: the joint node of each event, the own node of each joint one, and the events
        # after which one of them is likely, None where all are.
        self.joined: tuple[I32, I32, I32 | None] | None = None
        self.probability = np.ascontiguousarray(tables.probability.reshape(-1), dtype=np.float64)
        self._table: tuple[int, I64] | None = None  # ticks per second, and what `node_table` says
        self._class_of = {class_: number for number, class_ in enumerate(tables.classes, 1)}

    def look_up(self, binding: Binding, cohort: Cohort, chunk: Chunk, rows: Rows, begin: int) -> tuple[I32, I32, I64]:
        """The rows of a chunk with forecasts, and of each its place in the table and its place."""
        tables = self.tables
        class_ = self._class_of_rows(rows, begin, len(chunk.ts))
        joined, self.joined = self.joined, None
        if self.places is not None:
            row, node, place = self._at_places(self.places, binding, cohort, chunk, class_)
        elif joined is not None:
            reached, node_of, rows_of = joined
            row = np.arange(len(reached), dtype=np.int32) if rows_of is None else rows_of
            node = node_of[reached[row]]
            chosen = self.likely_nodes[node]
            row, node = row[chosen], node[chosen]
            place = np.full(len(row) if self.beside_places else 0, -1, dtype=np.int64)
        else:
            codes = self.reader.codes(cohort, chunk)
            row, node = self.walk.step_likely(codes, chunk, len(binding.entities), class_)
            place = np.full(len(row) if self.beside_places else 0, -1, dtype=np.int64)
        return row, node if tables.model.by is None else node + (class_[row] * self._n_nodes).astype(np.int32), place

    def tell(
        self, binding: Binding, cohort: Cohort, chunk: Chunk, rows: Rows, begin: int, told: F64
    ) -> tuple[I32, I32]:
        """Fills in the probability at each event; returns the rows that may have an interval, and of each its place in
        the table."""
        class_ = self._class_of_rows(rows, begin, len(chunk.ts))
        codes = self.reader.codes(cohort, chunk)
        row, node = self.walk.step_every(codes, chunk, len(binding.entities), class_, self.probability, told)
        return row, node + (class_[row] * self._n_nodes).astype(np.int32) if len(class_) else node

    def table(self, ticks_per_s: int) -> I64:
        """What `node_table` says."""
        if self._table is None or self._table[0] != ticks_per_s:
            self._table = ticks_per_s, node_table(self.tables, ticks_per_s)
        return self._table[1]

    def _class_of_rows(self, rows: Rows, begin: int, n: int) -> I64:
        """The class of each event; none where there is one."""
        by = self.tables.model.by
        return np.zeros(0, dtype=np.int64) if by is None else self._classes(rows.batch.column(by).slice(begin, n))

    def _at_places(
        self, places: tuple[PlaceReader, PlaceWalk], binding: Binding, cohort: Cohort, chunk: Chunk, class_: I64
    ) -> tuple[I32, I32, I64]:
        """The rows, nodes and places after which the pattern is likely there, by row and place."""
        reader, walk = places
        placed = reader.read(cohort, chunk, len(binding.entities))
        _, node = walk.step(placed, chunk, len(binding.entities))
        of_class = class_[placed.row] if len(class_) else np.zeros(len(node), dtype=np.int64)
        at = np.flatnonzero(placed.is_read & self._is_likely[of_class, node])
        at = at[np.lexsort((placed.place[at], placed.row[at]))]
        first = binding.rows.first_place(self.reader.runnable)
        return placed.row[at], node[at], first + placed.place[at].astype(np.int64)

    def _classes(self, column: pa.Array) -> I64:
        coded = column.cast(pa.string()).fill_null("").dictionary_encode()
        numbers = np.array([self._class_of.get(text, 0) for text in coded.dictionary.to_pylist()], dtype=np.int64)
        codes: I64 = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers[codes]


def node_table(tables: ForecastTables, ticks_per_s: int) -> I64:
    """Probability, and where the interval begins and ends, of all classes and nodes, by their bits."""
    first, last, horizon = tables.first, tables.last, tables.horizon
    if horizon.seconds is not None:
        lower, upper = interval_ticks(first, last, horizon.seconds, ticks_per_s, horizon.n_steps)
        first, last = np.where(first < 0, -1, lower), np.where(first < 0, -1, upper)
    bits = np.ascontiguousarray(tables.probability, dtype=np.float64).view(np.int64)
    found: I64 = np.stack([part.reshape(-1) for part in (bits, first, last)], axis=1).reshape(-1)
    return found


def interval_ticks(first: I64, last: I64, seconds: Fraction, ticks_per_s: int, n_steps: int) -> tuple[I64, I64]:
    """Where an interval of steps begins and ends, in ticks from now: a step reaches half a step to both sides."""
    half = float(seconds) * ticks_per_s / n_steps / 2
    lower = np.maximum(np.rint((2 * first - 1) * half), 0).astype(np.int64)
    upper = np.minimum(np.rint((2 * last + 1) * half), np.floor(float(seconds) * ticks_per_s)).astype(np.int64)
    return lower, upper


_NULLS: dict[pa.DataType, pa.Array] = {}


def _nulls(n: int, type_: pa.DataType) -> pa.Array:
    """Nulls, of which many batches share one array."""
    known = _NULLS.get(type_)
    if known is None or len(known) < n:
        known = _NULLS[type_] = pa.nulls(n, type_)
    return known.slice(0, n)


def _known(values: pa.Array, known: U8, n_known: int) -> pa.Array:
    """The values whose bits are set, of which there are `n_known`, null elsewhere."""
    n = len(values)
    if n_known == n:
        return values
    if not n_known:
        return _nulls(n, values.type)
    bits = pa.py_buffer(known)
    if values.null_count or values.offset or not pa.types.is_primitive(values.type):
        return pc.if_else(pa.Array.from_buffers(pa.bool_(), n, [None, bits]), values, pa.scalar(None, values.type))
    return pa.Array.from_buffers(values.type, n, [bits, *values.buffers()[1:]], n - n_known)


def _where(values: pa.Array, mark: U8, wanted: int) -> pa.Array:
    """The values whose mark is the wanted one, null elsewhere."""
    known: Bool = mark == wanted
    return _known(values, np.packbits(known, bitorder="little"), int(known.sum()))
