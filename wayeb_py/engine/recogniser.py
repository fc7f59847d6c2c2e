"""Batches of events go in, detections come out, state stays: the operators of a pattern file, run as one.

Every way of running (a table, files, a Spark task, a stream) feeds a `Recogniser`. It passes each batch to the operator
of its stream (`entity_recogniser`), the arrived events to the clock of the file, the events that the clock has passed
to silences and pairs, and joins what all of them find. `operator` has the picture. A saved state holds those of all
operators, each under its kind and fingerprint (`saved/operators`): changing one operator leaves the others their
states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.patterns import CompiledPatterns, Listener
from wayeb_py.compiler.streams import no_such_stream, quoted, stream_fingerprint
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.event_slice import EventSlice
from wayeb_py.engine.arrival.input_tables import as_batches
from wayeb_py.engine.entity_recogniser import Aside, EntityRecogniser
from wayeb_py.engine.operator import ClockOperator, Operator, StreamOperator
from wayeb_py.engine.parts_of_files import parts_of, watched_by_clock
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rows.joined_schema import fit, join_schemas
from wayeb_py.engine.saved.operators import (
    ENTITIES,
    OperatorState,
    pack_operators,
    refuse_unnamed,
    state_of,
    unpack_operators,
)
from wayeb_py.errors import DataError
from wayeb_py.tally import LATE_FOR_CLOCK, Tally

if TYPE_CHECKING:
    from wayeb_py.engine.arrival.file_clock import FileClock, Passed
    from wayeb_py.engine.pairs.share import PairShare
    from wayeb_py.engine.rules.operator import RuleOperator
    from wayeb_py.engine.stepping.shared_values import SharedRows

Order = Literal["arrival", "sorted"]


class Recogniser:
    """Recognises patterns in events that come batch by batch.

    order="arrival": events come as they arrive; those that are late, by the patterns' lateness (0 unless given), are
    set aside. order="sorted": each entity's events come in the order of time, and all of a stream's where silences or
    pairs read it; where they do not, `Disorder` is raised. Streams of one file may differ in it: {"radar": "sorted"}.
    `own_input`: the fed events are an input of their own, not the rest of an earlier one, so they may repeat
    events, which are set aside (`repeats`). `plans` are the orders in which the members of rules are joined, by rule.
    `listens`: calls what `patterns.on` was given.
    saves=False: no caller saves the state, which spares work where rules read detections of events in order.
    `whole`: these are some of a file's patterns; what all of them ask of events decides what is counted and set aside.
    `counted` are the streams whose events are counted and set aside here, by default all; another recogniser counts the
    others. `share` selects the pairs that this recogniser handles; other tasks handle the rest. `elsewhere`: rules that
    are matched in another place, for which only rows are made (`rules.leaving`).
    """

    def __init__(
        self,
        patterns: CompiledPatterns,
        *,
        order: Order | Mapping[str, Order] = "arrival",
        episodes: bool = False,
        workers: int = 1,
        on_detection: Callable[[dict[str, Any]], None] | None = None,
        on_episode: Callable[[dict[str, Any]], None] | None = None,
        saved: bytes | None = None,
        own_input: bool = False,
        plans: Mapping[str, str] | None = None,
        saves: bool = True,
        listens: bool = True,
        whole: CompiledPatterns | None = None,
        counted: Collection[str] | None = None,
        share: PairShare | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        self.patterns = patterns
        self.aside: Aside = []  # rows that no operator takes
        self._on_detection, self._on_episode = on_detection, on_episode
        self._listeners: Mapping[str, Sequence[Listener]] = patterns.listeners if listens else {}
        episodes = episodes or on_episode is not None
        parts = patterns.by_stream if whole is None else parts_of(whole, patterns, counted)
        self._counted = frozenset(parts if counted is None else counted)
        self._aside_elsewhere: Aside = []
        orders = {name: order if isinstance(order, str) else order.get(name, "arrival") for name in parts}
        accounted = {name: part for name, part in parts.items() if name in self._counted}
        watched = {} if whole is None else watched_by_clock(whole, accounted, orders)
        is_clocked = bool(patterns.clocked or watched)
        self.counts_of = {name: Tally() for name in parts}  # by stream; the caller counts detections
        self._streams: dict[str, EntityRecogniser] = {
            name: EntityRecogniser(
                part.single, order=orders[name], episodes=episodes, workers=workers, own_input=own_input,
                counts=self.counts_of[name], aside=self._aside_of(name), needs=part.needs,
                stream=name, is_only=len(patterns.meaning.streams) == 1, keeps_arrived=is_clocked,
            )
            for name, part in parts.items()
        }  # fmt: skip
        self._clock: FileClock | None = None
        self._clocked: tuple[ClockOperator, ...] = ()
        self._rules: RuleOperator | None = None
        self._reporting: frozenset[str] = frozenset()  # streams whose detections rules take as they are reported
        self._saves = saves
        self._hides_episodes = not episodes and bool(patterns.meaning.rules)
        if is_clocked:
            from wayeb_py.engine.clock_operators import (  # for start-up time: most have no clock
                clocked_operators,
                make_clock,
                rule_operator,
            )

            reported = {} if saves or saved or own_input or not patterns.meaning.rules else _taken(patterns, orders)
            self._reporting = frozenset(reported.values())
            self._clock = make_clock({**parts, **watched}, orders, self._reporting | set(watched))
            self._clocked = clocked_operators(patterns, episodes, workers, share)
            by_pattern = {pattern: self._streams[stream] for pattern, stream in reported.items()}
            self._rules = rule_operator(patterns, self._clocked, plans, by_pattern, elsewhere)
        self._schema: DetectionSchema | None = None
        if saved:
            self.restore(saved)

    @property
    def operators(self) -> tuple[Operator, ...]:
        return (*self._streams.values(), *self._clocked, *([] if self._rules is None else [self._rules]))

    @property
    def rules(self) -> RuleOperator | None:
        """The operator of the file's rules."""
        return self._rules

    def of(self, stream: str | None = None) -> StreamOperator:
        """The operator of a stream's entities, the only one where the file has one stream."""
        return self._streams[self._named(stream)]

    @property
    def has_clock(self) -> bool:
        """Whether this recogniser has a clock over all entities."""
        return self._clock is not None

    def reads(self, stream: str) -> bool:
        """Whether this recogniser reads events of a stream."""
        return stream in self._streams

    @property
    def counts(self) -> Tally:
        """What became of the events of the streams that are counted here, and what patterns count."""
        own = [one if name in self._counted else one.of_patterns() for name, one in self.counts_of.items()]
        if len(own) == 1:
            return own[0]
        total = Tally()  # rules over files of facts read no events
        for one in own:
            total.add(one)
        return total

    def _aside_of(self, stream: str) -> Aside:
        return self.aside if stream in self._counted else self._aside_elsewhere

    # Feeding.

    def bind(self, schema: pa.Schema, stream: str | None = None) -> None:
        """Binds the patterns to the types of a stream's events before there are any; raises at once where they do not
        fit."""
        name = self._named(stream)
        self._streams[name].bind(schema)
        self._bound(name)

    def feed(self, events: Any, stream: str | None = None, partition: str | None = None) -> Detections:
        """The detections of some more events: an Arrow table or batch, or anything that speaks the Arrow protocol, or a
        slice of events.

        `stream` names their stream, where the file has several, `partition` one of those that `follow` has named.
        """
        name = self._named(stream)
        if type(events) is list and self._clock is None:
            found = self._streams[name].feed_rows(events)
            if found is not None:
                return self._alone(self._streams[name], found)
        if isinstance(events, EventSlice):
            found = None if self._clock is not None else self._streams[name].feed_few(events)
            if found is not None:
                return self._alone(self._streams[name], found)
            events = events.batch()
        batches = as_batches(events)
        if len(batches) == 1:
            return self._announce(self._feed(name, batches[0], partition))
        return self._announce(self._joined([self._feed(name, batch, partition) for batch in batches]))

    def feed_arrays(self, arrays: Mapping[str, Any], stream: str | None = None) -> Detections:
        """The detections of a few more events, given as arrays by column: the fastest call.

        Times are whole numbers in the ticks of the time column (`ticks_per_s`), texts come as lists; the types must be
        known, by `bind` or by a batch before.
        """
        if self._clock is not None:
            raise ValueError("patterns that follow the clock of a file take batches")
        operator = self._streams[self._named(stream)]
        return self._alone(operator, operator.feed_arrays(arrays))

    def few_types(self, stream: str | None = None) -> dict[str, pa.DataType] | None:
        """The types of the columns that a slice of a few events has to have; None where only batches are taken, and
        before the types are known."""
        return None if self._clock is not None else self._streams[self._named(stream)].few_types()

    def lend(self, shared: SharedRows | None, stream: str | None = None) -> None:
        """Lends, or takes back, what others have computed of the events of a stream that are fed next."""
        self._streams[self._named(stream)].lend(shared)

    def skip(self, events: pa.RecordBatch, stream: str | None = None) -> None:
        """Skips some events for patterns of single entities: their words begin again after the gap."""
        self._streams[self._named(stream)].skip(events)

    def skip_unneeded(self, events: EventSlice, stream: str | None = None) -> npt.NDArray[np.bool_] | None:
        """Skips the events that would change what patterns of single entities remember: see `EntityRecogniser`. None,
        with nothing done, if the engine cannot decide which events change nothing."""
        return self._streams[self._named(stream)].skip_unneeded(events)

    def follow(self, partitions: Collection[str], away: Collection[str] = (), stream: str | None = None) -> Detections:
        """Tells the clock the partitions of a stream and which of them it must not wait for (`away`); returns what that
        decides."""
        if self._clock is None:
            return self._joined([])
        self._clock.follow(self._named(stream), partitions, away)
        return self._announce(self._together(self._clocked_on(self._clock.release())))

    def reach(self, time_s: Fraction, partition: str, stream: str | None = None) -> Detections:
        """Moves the clock to the time that a partition has reached, although only some of its events come here; returns
        what that decides."""
        if self._clock is None:
            return self._joined([])
        self._clock.reach(self._named(stream), time_s, partition)
        return self._announce(self._together(self._clocked_on(self._clock.release())))

    def reached_s(self, partition: str, stream: str | None = None) -> Fraction | None:
        """The greatest time that has arrived in a partition that `follow` has named; None before the first event, and
        without a clock."""
        return None if self._clock is None else self._clock.reached_s(self._named(stream), partition)

    def advance(self, clock: int) -> Detections:
        """The detections that are decided once no event before this time, in ticks, can come any more."""
        if self._clock is None:
            return self._joined([])
        self._clock.advance(clock)
        return self._announce(self._together(self._clocked_on(self._clock.release())))

    def finish(self, reached_s: Mapping[str, Fraction] | None = None) -> Detections:
        """The detections of the events still held back, and the episodes still open: the input has ended.

        `reached_s` are the greatest times of the streams that these events are a part of.
        """
        found: list[tuple[Operator, Detections]] = [(one, one.finish()) for one in self._streams.values()]
        if self._clock is not None:
            reported = [some for name, some in zip(self._streams, found, strict=True) if name in self._reporting]
            found += self._clocked_on(self._clock.finish(reached_s or {}), reported)
            ended: list[tuple[Operator, Detections]] = [(operator, operator.finish()) for operator in self._clocked]
            found += ended
            if self._rules is not None:
                found.append((self._rules, self._rules.finish(ended)))
        return self._announce(self._together(found))

    @property
    def ticks_per_s(self) -> int:
        """The unit that the clock counts in, the finest of all streams; known once each stream has shown the type of
        its times."""
        return max(operator.ticks_per_s for operator in self._streams.values())

    @property
    def behind(self) -> str:
        """The stream that the clock waits for, whose events are best read next; the first without a clock."""
        return next(iter(self._streams)) if self._clock is None else self._clock.behind

    # What a long-running stream needs.

    def flush_idle(self, entities: pa.Array, stream: str | None = None) -> Detections:
        """The detections of events held back for entities, given by key, that have been silent for long."""
        operator = self.of(stream)
        return self._announce(self._together([(operator, operator.flush_idle(entities))]))

    def evict(
        self, now_s: float | None = None, stream: str | None = None
    ) -> tuple[Detections, npt.NDArray[np.bool_]] | None:
        """Drops entities that have been silent for longer than patterns remember: see `eviction`.

        Returns what they still had open, and which entities stay, by their old numbers; None if all stay. `now_s` is
        the wall clock, where it is known.
        """
        name = self._named(stream)
        evicted = self._streams[name].evict(now_s)
        if evicted is None:
            return None
        self._bound(name)
        return self._announce(self._together([(self._streams[name], evicted[0])])), evicted[1]

    # State.

    def save(self) -> bytes:
        """The state: small, versioned, by operator and fingerprint; see `Recogniser(…, saved=…)`."""
        if not self._saves:
            raise ValueError("this recogniser was made without a state to save")
        states = [OperatorState(one.kind, one.fingerprint, one.save(), one.stream) for one in self._stateful()]
        return pack_operators(states) if any(state.data for state in states) else b""

    def restore(self, data: bytes) -> None:
        """Continues from a saved state; operators without a state in it start empty; states of other operators are
        dropped."""
        saved = unpack_operators(data)
        refuse_unnamed(saved, n_streams=len(self.patterns.meaning.streams))
        for one in self._stateful():
            own = state_of(saved, one.kind, one.fingerprint, one.stream)
            if own:
                one.restore(own)
        for name in self._streams:
            self._bound(name)

    def _stateful(self) -> Iterator[Operator | FileClock]:
        yield from self.operators
        if self._clock is not None:
            yield self._clock

    # Inside.

    def _named(self, stream: str | None) -> str:
        if stream is None and len(self._streams) == 1:
            return next(iter(self._streams))
        if stream is None:
            raise DataError(
                f"these patterns read {len(self._streams)} streams, and nothing says whose events these are",
                hint=f"say so: stream={next(iter(self._streams))!r}; the streams are {quoted(self._streams)}",
            )
        if stream not in self._streams:
            raise no_such_stream(stream, list(self._streams))
        return stream

    def _feed(self, name: str, batch: pa.RecordBatch, partition: str | None) -> Detections:
        operator = self._streams[name]
        self._aside_elsewhere.clear()
        if self._clock is None:
            return self._together([(operator, operator.feed(batch))])
        is_bound = operator.event_schema is not None
        found: list[tuple[Operator, Detections]] = [(operator, operator.feed(batch))]
        if not is_bound:
            self._bound(name)
        if operator.arrived is not None:
            self._take(name, self._clock, partition)
            found += self._clocked_on(self._clock.release(), found if name in self._reporting else ())
        return self._together(found)

    def _take(self, name: str, clock: FileClock, partition: str | None) -> None:
        """Passes the arrived events of a stream to the clock; events that are late for it are counted, and set aside
        once."""
        arrived = self._streams[name].arrived
        assert arrived is not None
        late = clock.take(name, arrived, partition)
        if late.any():
            self.counts_of[name].late_for_clock += int(late.sum())
            alone = late & ~arrived.late  # the others have been set aside already
            if alone.any():
                self._aside_of(name).append((LATE_FOR_CLOCK, arrived.rows.where(alone).batch))

    def _clocked_on(
        self, passed: Passed, reported: Sequence[tuple[Operator, Detections]] = ()
    ) -> list[tuple[Operator, Detections]]:
        found: list[tuple[Operator, Detections]] = [(operator, operator.feed(passed)) for operator in self._clocked]
        if self._rules is not None:
            found.append((self._rules, self._rules.feed(passed, [*reported, *found])))
        return found

    def _bound(self, name: str) -> None:
        """Tells the clock and its operators the types of a stream's events and its entities."""
        operator = self._streams[name]
        schema = operator.event_schema
        if self._clock is None or schema is None:
            return
        self._clock.bind(name, operator.entities, schema, operator.ticks_per_s)
        for clocked in self._clocked:
            clocked.bind(name, schema, operator.entities)
        if self._rules is not None and name in self.patterns.by_stream:
            self._rules.bind(name, schema, operator.entities)

    def _alone(self, operator: Operator, found: Detections) -> Detections:
        """What one operator found in a few events, without anything that the caller may not need: it would cost too
        much."""
        if len(self._streams) > 1:
            found = self._together([(operator, found)])
        return self._announce(found) if self._listeners or self._on_detection or self._on_episode else found

    def _together(self, found: Sequence[tuple[Operator, Detections]]) -> Detections:
        """What operators found, as one table."""
        if len(self.operators) == 1 and len(found) < 2:
            return found[0][1] if found else self.operators[0].nothing()
        schema = self._joined_schema()
        tables = [fit(self._reported(some.to_arrow()), one.schema, schema) for one, some in found if len(some)]
        closed = [] if self._hides_episodes else [(one, self._reported(some.episodes())) for one, some in found]
        episodes = [fit(table, one.schema, schema, episodes=True) for one, table in closed if table.num_rows]
        return Detections(
            pa.concat_tables(tables) if tables else schema.no_detections,
            pa.concat_tables(episodes) if episodes else schema.no_episodes,
        )

    def _reported(self, table: pa.Table) -> pa.Table:
        """The detections, or the episodes, without those of patterns that only rules read."""
        if self._rules is None or not self.patterns.n_hidden:
            return table
        names = pa.array([*self.patterns.names, *self.patterns.rule_names])
        return table.filter(pc.is_in(table.column("pattern").cast(pa.string()), value_set=names))

    @property
    def schema(self) -> DetectionSchema:
        """The columns of all detections, as far as their types are known."""
        return self._joined_schema()

    def _joined_schema(self) -> DetectionSchema:
        """The columns of all detections; their types are final once all streams have shown theirs."""
        if self._schema is not None:
            return self._schema
        schema = join_schemas(self.patterns.emitted, [operator.schema for operator in self.operators])
        if all(operator.event_schema is not None for operator in self._streams.values()):
            self._schema = schema
        return schema

    def _joined(self, results: Sequence[Detections]) -> Detections:
        """Joins tables of one schema."""
        if not results:
            return self._together([])
        return Detections(
            pa.concat_tables([result.to_arrow() for result in results], promote_options="default"),
            pa.concat_tables([result.episodes() for result in results], promote_options="default"),
        )

    def _announce(self, result: Detections) -> Detections:
        call_listeners(self._listeners, result)
        if self._on_detection is not None:
            for row in result.to_arrow().to_pylist():
                self._on_detection(row)
        if self._on_episode is not None:
            for row in result.episodes().to_pylist():
                self._on_episode(row)
        return result


def _taken(patterns: CompiledPatterns, orders: Mapping[str, str]) -> dict[str, str]:
    from wayeb_py.engine.rules.spared_events import reported_patterns  # for start-up time: most have no rules

    return reported_patterns(patterns, orders)


def call_listeners(listeners: Mapping[str, Sequence[Listener]], found: Detections) -> None:
    """Calls the listeners of a pattern or a rule with each of its detections, in their order."""
    if not listeners or not len(found):
        return
    table = found.to_arrow()
    wanted = pc.is_in(table.column("pattern").cast(pa.string()), value_set=pa.array(list(listeners)))
    for row in table.filter(wanted).to_pylist():
        for listener in listeners[row["pattern"]]:
            listener(row)


def saved_schema(data: bytes, stream: m.Stream, *, is_only: bool) -> pa.Schema | None:
    """The types of a stream's events that a saved state has read; None where it has read none."""
    fingerprint = "" if is_only else stream_fingerprint(stream)
    saved = state_of(unpack_operators(data), ENTITIES, fingerprint, stream.name or "")
    if not saved:
        return None
    from wayeb_py.engine.saved import state  # for start-up time

    return state.saved_schema(saved)
