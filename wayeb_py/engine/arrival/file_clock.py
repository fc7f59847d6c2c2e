"""The clock of a file: the least of its streams' clocks says up to which time nothing more can come.

    events of each stream ──▶ its own clock ──▶ what the least of all clocks is past, in order ──▶ silences, pairs

Silences and pairs of a file share it: an event is put in order once, and reported late once. Times are compared in
seconds, exactly, since streams may count theirs in different units. At the end of the input the clock is past
everything that arrived, and events that still come are late.

A stream that only patterns of single entities read holds no events here, and none of its events is late for the clock;
its time counts: the clock waits for every stream of the file, but for one whose partitions are all away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.columns import column_of, ticks_of
from wayeb_py.compiler.patterns import StreamPart
from wayeb_py.compiler.streams import stream_fingerprint
from wayeb_py.engine.arrival.conform import with_columns
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.reorder import Arrived, Rows
from wayeb_py.engine.arrival.stream_clock import StreamClock
from wayeb_py.engine.saved.packing import ipc, pack_state, read_ipc, unpack_state
from wayeb_py.engine.saved.state_checks import misfit, telling_misfits
from wayeb_py.errors import DataError


@dataclass(frozen=True, slots=True)
class Passed:
    """What the clock has passed since the last `release`."""

    rows: Mapping[str, Rows]  # by stream, in order; entities have the numbers that the stream's recogniser gives them
    until_s: Fraction | None  # no event before this time can come any more; None where it is unknown
    reached_s: Mapping[str, Fraction]  # the greatest time that has arrived of each stream

    def until(self, ticks_per_s: int) -> int | None:
        """`until_s` in ticks: what ends before it is decided."""
        return None if self.until_s is None else ceil(self.until_s * ticks_per_s)


class FileClock:
    """The clocks of a file's streams, and the least of them."""

    kind, fingerprint, stream = "clock", "", ""

    def __init__(
        self, parts: Mapping[str, StreamPart], in_order: Mapping[str, bool], not_held: Collection[str] = ()
    ) -> None:
        self._parts, self._in_order, self._not_held = parts, in_order, not_held
        self._clocks: dict[str, StreamClock] = {}  # the clocks of the streams whose types are known
        self._told_s: Fraction | None = None  # the time that a caller moved the clock to
        self._saved: dict[str, tuple[dict[str, Any], bytes | None]] = {}  # of streams whose types are unknown yet

    def bind(self, name: str, entities: Entities, schema: pa.Schema, ticks_per_s: int) -> None:
        """Learns the types of a stream's events, and the numbering of its entities; again where these change."""
        part = self._parts[name]
        assert part.stream.key is not None
        if name in self._clocks:
            self._clocks[name].rebind(entities, part.stream.key)
            return
        lateness = floor((part.stream.lateness_s or 0) * ticks_per_s)
        columns = tuple(dict.fromkeys(need.column for need in part.clocked_needs))
        clock = StreamClock(entities, ticks_per_s, lateness, self._in_order[name], part.stream.order, columns)
        clock.holds = name not in self._not_held
        if self._told_s is not None:
            clock.advance(self._told_s)
        if name in self._saved:
            self._restore(clock, part, schema, *self._saved.pop(name))
        self._clocks[name] = clock

    @property
    def ticks_per_s(self) -> int:
        """The finest unit in which a stream counts its times; known once a batch has shown one."""
        if not self._clocks:
            raise ValueError("no batch has been fed yet")
        return max(clock.ticks_per_s for clock in self._clocks.values())

    @property
    def now_s(self) -> Fraction | None:
        """The clock in seconds, which waits for no stream that is away; None while a stream has had no event."""
        if not self.is_set:
            return None
        times = self._times()
        waited_for = [time_s for name, time_s in times if time_s is not None and not self._is_away(name)]
        return min(waited_for, default=max((time_s for _, time_s in times if time_s is not None), default=None))

    @property
    def is_set(self) -> bool:
        return all(time_s is not None for _, time_s in self._times())

    @property
    def behind(self) -> str:
        """The stream that the others wait for."""
        times = self._times()
        unknown = next((name for name, time_s in times if time_s is None), None)
        return unknown if unknown is not None else min(times, key=lambda one: one[1] or 0)[0]

    def _times(self) -> list[tuple[str, Fraction | None]]:
        clocks = self._clocks
        return [(name, clocks[name].now_s if name in clocks else self._told_s) for name in self._parts]

    def follow(self, name: str, partitions: Collection[str], away: Collection[str]) -> None:
        """Learns which partitions a stream comes in, and which of them its clock does not wait for."""
        self._clocks[name].follow(partitions, away)

    def _is_away(self, name: str) -> bool:
        return name in self._clocks and self._clocks[name].is_away

    def take(self, name: str, arrived: Arrived, partition: str | None = None) -> npt.NDArray[np.bool_]:
        """Holds the events of a stream; returns which are late for its clock, or for that of their partition."""
        return self._clocks[name].take(arrived.rows, partition)

    def reach(self, name: str, time_s: Fraction, partition: str) -> None:
        """Learns the greatest time that has arrived in a partition of a stream, only some of whose events come here."""
        self._clocks[name].reach(time_s, partition)

    def reached_s(self, name: str, partition: str) -> Fraction | None:
        """The greatest time that has arrived in a partition of a stream; None before the first event."""
        return self._clocks[name].reached_s(partition)

    def advance(self, clock: int) -> None:
        """Advances the clock to a time that the caller gives, in ticks."""
        self._move_on(Fraction(clock, self.ticks_per_s))

    def _move_on(self, clock_s: Fraction) -> None:
        self._told_s = clock_s if self._told_s is None else max(self._told_s, clock_s)
        for stream in self._clocks.values():
            stream.advance(clock_s)

    def release(self) -> Passed:
        """Returns what the clock has passed by now."""
        now_s = self.now_s
        if now_s is None:
            return Passed({}, None, self._reached_s())
        for clock in self._clocks.values():
            if clock.is_away:
                clock.advance(now_s)  # the others did not wait for its older events, which will be late when it returns
        return self._passed(now_s)

    def finish(self, reached_s: Mapping[str, Fraction] = MappingProxyType({})) -> Passed:
        """All that is held: the input has ended, and the clock moves past everything that arrived.

        `reached_s` are the greatest times of streams whose events came here only in part, or not at all.
        """
        for name, time_s in reached_s.items():
            if name in self._clocks:
                self._clocks[name].reach(time_s)
        passed = self._passed(None)
        passed = replace(passed, reached_s={**reached_s, **passed.reached_s})
        if passed.reached_s and self._clocks:
            finest = Fraction(1, self.ticks_per_s)
            self._move_on(max(passed.reached_s.values()) + finest)
        return passed

    def _passed(self, until_s: Fraction | None) -> Passed:
        rows = {name: ready for name, clock in self._clocks.items() if (ready := clock.release(until_s)) is not None}
        return Passed(rows, until_s, self._reached_s())

    def _reached_s(self) -> dict[str, Fraction]:
        return {name: time_s for name, clock in self._clocks.items() if (time_s := clock.greatest_s) is not None}

    # State.

    def save(self) -> bytes:
        """Where the clocks stand, and the events that they have not passed."""
        header: dict[str, Any] = {}
        blobs: dict[str, bytes] = {}
        for name, clock in self._clocks.items():
            if clock.greatest_s is None and clock.now_s is None and not clock.partitions:
                continue  # nothing has arrived, and no partitions are known
            header[name] = {
                "stream": stream_fingerprint(self._parts[name].stream),
                "greatest": clock.greatest,
                "clock": clock.now,
                "lateness": clock.lateness,
                "ticks_per_s": clock.ticks_per_s,
            }
            if clock.partitions:
                header[name] |= {"partitions": clock.partitions, "away": sorted(clock.away)}
            if clock.held is not None and len(clock.held):
                blobs[f"held.{name}"] = ipc(clock.held.batch)
        for name, (facts, held) in self._saved.items():
            header[name] = facts
            blobs |= {} if held is None else {f"held.{name}": held}
        return pack_state({"streams": header}, blobs) if header else b""

    def restore(self, data: bytes) -> None:
        """Continues from saved clocks, stream by stream as soon as the types of each are known."""
        header, blobs = unpack_state(data)
        with telling_misfits():
            saved = header["streams"]
            for name, facts in saved.items():
                held = blobs.get(f"held.{name}")
                if len(self._parts) == len(saved) == 1:  # the only stream of a file may have had another name
                    self._saved[next(iter(self._parts))] = facts, held
                elif name in self._parts and facts["stream"] == stream_fingerprint(self._parts[name].stream):
                    self._saved[name] = facts, held

    def _restore(
        self, clock: StreamClock, part: StreamPart, schema: pa.Schema, facts: dict[str, Any], held: bytes | None
    ) -> None:
        with telling_misfits():
            if facts["ticks_per_s"] != clock.ticks_per_s:
                raise misfit("the unit of its times is another")
            if facts["lateness"] != clock.lateness and held is not None:
                raise DataError(
                    "the saved state holds events back for another lateness",
                    hint="go on with the lateness that was used before",
                )
            clock.greatest, clock.floor = int(facts["greatest"]), max(clock.floor, int(facts["clock"]))
            clock.partitions = {name: int(time) for name, time in facts.get("partitions", {}).items()}
            clock.away = frozenset(facts.get("away", ()))
            if held is not None and clock.columns:
                batch = with_columns(read_ipc(held), pa.schema([schema.field(name) for name in clock.columns]))
                key, time = part.stream.key, part.stream.time
                assert key is not None
                assert time is not None
                ticks = ticks_of(column_of(batch.column(time), time), part.stream.time_unit, time)
                clock.held = Rows(batch, clock.entities.number(batch.column(key)), ticks.values)
