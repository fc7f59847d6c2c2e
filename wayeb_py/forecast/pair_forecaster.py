"""Events of pairs become rows of forecasts: at each event of a pair, the forecast of the node that its word has
reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32, I64
from wayeb_py.engine.saved.state_checks import between
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.watcher import WatchedWords
from wayeb_py.forecast.forecaster import ForecastRows, forecast_schema
from wayeb_py.forecast.kernels import ForecastColumns
from wayeb_py.forecast.tables import ForecastTables
from wayeb_py.forecast.words.pair_words import ByWords
from wayeb_py.forecast.words.symbols import Walk

if TYPE_CHECKING:  # most patterns are of single entities, and the kernels of pairs are many
    from wayeb_py.engine.pairs.merge import PairingEvents
    from wayeb_py.engine.pairs.operator import PairOperator
    from wayeb_py.engine.pairs.pair_words import PairWords
    from wayeb_py.engine.pairs.values import PairChunk

NO_CLASSES: I64 = np.zeros(0, dtype=np.int64)
NO_PLACES: I64 = np.zeros(0, dtype=np.int64)


class PairForecaster:
    """Makes forecasts of some patterns over pairs, over the events that one operator reads; those below `at_least` are
    left out. `rows` knows all that are forecast."""

    def __init__(
        self, operator: PairOperator, tables: Sequence[ForecastTables], rows: ForecastRows, at_least: float = 0.0
    ) -> None:
        self._operator, self._rows = operator, rows
        own = {number: one for number, one in enumerate(rows.tables) if any(one is other for other in tables)}

        def make(number: int) -> Walk:
            walk = Walk(own[number].nodes.next_node)
            walk.mark_likely(own[number].probability >= at_least)
            return walk

        self._by_words = ByWords(operator, {number: one.model.automaton for number, one in own.items()}, make)
        self._chunks: list[_Rows] = []  # of a pairing
        self._placed: list[_Rows] = []  # of all pairings
        self._waiting: list[pa.RecordBatch] = []

    def watch(self, words: WatchedWords, chunk: PairChunk, found: list[Found]) -> None:
        """Makes the forecasts of a chunk."""
        own = self._by_words.of(words)
        parts = []
        for _, reader, walk in own:
            codes = reader.codes(words.cohort, chunk)
            parts.append((*walk.step_likely(codes, chunk, len(words.count), NO_CLASSES), NO_PLACES))
        if any(len(row) for row, _, _ in parts):
            at = np.arange(len(chunk.ts))
            made = self._rows.columns(
                [number for number, _, _ in own], parts, chunk.ts, chunk.entity, at, chunk.ticks_per_s
            )
            at = made.seq
            made = made._replace(seq=chunk.seq[at])
            self._chunks.append(
                _Rows(made, words.a[made.entity], words.b[made.entity], chunk.row[at].astype(np.int64), words.sides)
            )

    def end(self, words: WatchedWords, which: I32) -> None:
        """The next event of a word's number begins another word."""

    def place(self, words: WatchedWords, part: PairingEvents) -> None:
        """Notes where the events are among those of all streams."""
        self._placed += [one.moved(part.places(one.place)) for one in self._chunks]
        self._chunks = []

    def settle(self, rank: I64) -> None:
        """Makes rows of what is gathered, in the order of events, of patterns, and of keys, as detections are."""
        if not self._placed:
            return
        placed, self._placed = self._placed, []
        schema, bound = self.schema, self._operator.bound
        assert schema is not None
        assert bound is not None
        arrays = [self._arrays(one) for one in placed]
        together = [pa.concat_arrays(list(parts)) for parts in zip(*arrays, strict=True)]
        keys = [
            np.concatenate(parts)
            for parts in zip(*((rank[one.b], rank[one.a], one.made.which, one.place) for one in placed), strict=True)
        ]
        order = np.lexsort(keys)
        batch = pa.RecordBatch.from_arrays(together, schema=schema)
        self._waiting.append(batch if (order[1:] > order[:-1]).all() else batch.take(pa.array(order)))

    def _arrays(self, rows: _Rows) -> list[pa.Array]:
        assert self._operator.bound is not None
        made, schema = rows.made, self._operator.bound.schema
        which = pa.array(made.which)
        return [
            pa.DictionaryArray.from_arrays(which, self._rows.names),
            schema.key(rows.sides[0], rows.a),
            schema.key(rows.sides[1], rows.b),
            schema.times(made.ts),
            pa.array(made.seq),
            pa.array(made.probability),
            *self._rows.spans(made, schema.times),
            pa.DictionaryArray.from_arrays(which, self._rows.horizons),
        ]

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of its rows; None before the types of all streams are known."""
        if self._operator.bound is None:
            return None
        columns = self._operator.bound.schema.columns
        return forecast_schema(columns.key_type, columns.time_type, has_pairs=True)

    def take(self) -> pa.Table | None:
        """The forecasts since the last call; None before there are any events."""
        schema = self.schema
        if schema is None:
            return None
        made, self._waiting = self._waiting, []
        return pa.Table.from_batches(made, schema=schema)

    # State.

    def _walks(self) -> list[tuple[PairWords, str, Walk]]:
        """The walks of all words, each with a name."""
        bound = self._operator.bound
        return [
            (words, f"pairs.{nth}.{number}", walk)
            for nth, words in enumerate([] if bound is None else bound.words)
            for number, _, walk in self._by_words.of(words)
        ]

    def save(self) -> dict[str, I32]:
        """The nodes of all words that continue, in the order in which the operator saves them."""
        found = {}
        for words, name, walk in self._walks():
            at = words.words_of(words.meetings.live())
            node = np.zeros(len(at), dtype=np.int32)
            known = at < len(walk.node_of)
            node[known] = walk.node_of[at[known]]
            found[name] = node
        return found

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Continues from saved nodes, after the operator was restored."""
        for _, name, walk in self._walks():
            walk.node_of = saved[name].astype(np.int32)
            between(walk.node_of, "the node of a pair", 0, len(walk))


class _Rows:
    """Forecasts of pairs, the entities, where their events are, and the streams of a and b."""

    __slots__ = ("a", "b", "made", "place", "sides")

    def __init__(self, made: ForecastColumns, a: I32, b: I32, place: I64, sides: tuple[int, int]) -> None:
        self.made, self.a, self.b, self.place, self.sides = made, a, b, place, sides

    def moved(self, place: I64) -> _Rows:
        return _Rows(self.made, self.a, self.b, place, self.sides)
