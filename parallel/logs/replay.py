"""A data set becomes a live stream: events are offered when their own time has come, sped up by any factor.

The log has a clock. It stops while the buffer between source and recogniser is full, so a recogniser that is too slow
makes the replay late, and the time it stopped over the time that passed is the ratio of `back_pressure`. After
a restart the clock continues from the offsets of the checkpoint. At the speed `max` everything is due at once, and the
source waits whenever the recogniser has not taken what fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import Block, Selection, TimeRange, arrange
from wayeb_py.files.projection import Wanted
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.logs.back_pressure import Capacity, SourceState, pass_time, take
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets
from wayeb_py.parallel.logs.replay_store import read_rows, read_store, to_block

CAPACITY = Capacity(seconds=10.0)
CAPACITY_AT_MAX = Capacity(events=1_000_000)
MAX = math.inf


def read_speed(text: str) -> float:
    """`4320`, `0.5`, or `max`."""
    if text.strip() == "max":
        return MAX
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not speed > 0 or math.isinf(speed):
        raise DataError(f"--speed {text} is no speed", hint="write how many times real time, such as 4320, or max")
    return speed


class Schedule:
    """The timetable of a partition: due times in seconds since the data set's first event, divided by the speed."""

    def __init__(self, due_s: npt.NDArray[np.float64], began_s: float, speed: float) -> None:
        self._due_s, self._began_s, self._speed = due_s, began_s, speed

    def __len__(self) -> int:
        return len(self._due_s)

    def due_s(self, offset: int) -> float:
        if offset >= len(self._due_s):
            return math.inf
        return (float(self._due_s[offset]) - self._began_s) / self._speed

    def n_due(self, clock_s: float) -> int:
        if self._speed == MAX:
            return len(self._due_s)
        # Division and multiplication round: the array gives the neighbourhood, `due_s` decides.
        offset = int(np.searchsorted(self._due_s, self._began_s + clock_s * self._speed, side="right"))
        while offset and self.due_s(offset - 1) > clock_s:
            offset -= 1
        while self.due_s(offset) <= clock_s:
            offset += 1
        return offset


class ReplayLog(Log):
    """A `Log` over a store that `store_events` made; see `back_pressure` for its clock."""

    def __init__(
        self,
        folder: Path,
        speed: float = 1.0,
        capacity: Capacity | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        if capacity is None:
            capacity = CAPACITY_AT_MAX if speed == MAX else CAPACITY
        elif speed == MAX and capacity.seconds is not None:
            raise DataError(
                f"at --speed max everything is due at once: a buffer of {capacity} has no end",
                hint="give --buffer as a number of events",
            )
        stored = read_store(folder)
        if stored is None:
            raise DataError("there is no replay", str(folder))
        self.folder, self.speed, self.capacity, self._clock = folder, speed, capacity, clock
        self._ends = {str(partition): rows for partition, rows in enumerate(stored.rows)}
        self._began_s, self._name, self._digest = stored.began_s, stored.name, stored.digest
        self._schedules: dict[str, Schedule] = {}
        self.states: dict[str, SourceState] = {}  # states of the copy whose clock runs

    def __getstate__(self) -> dict[str, object]:
        # A clock belongs to one process; each process maps the schedules that it needs from the disk.
        return self.__dict__ | {"_schedules": {}, "states": {}}

    def identity(self) -> dict[str, str]:
        """The data set, its files with their sizes and times: its store may have been lost, and made from another."""
        return {"the data set": self._digest}

    def with_files_in(self, folder: StorePath) -> ReplayLog:
        """Fails: the files are the whole data set."""
        raise DataError(
            "a replay reads a copy of its data set beside the checkpoint, and executors of a cluster do not see "
            "what lies beside one in a store", self._name,
            hint="keep the checkpoint in a folder that the machines share, or run the stream on one machine: "
            "--master 'local[8]'",
        )  # fmt: skip

    # The clock.

    @property
    def clock(self) -> ReplayLog:
        """The log itself."""
        return self

    def schedule(self, partition: str) -> Schedule:
        """When the events of a partition are due."""
        if partition not in self._schedules:
            due_s = np.load(self.folder / f"{partition}.due.npy", mmap_mode="r")
            self._schedules[partition] = Schedule(due_s, self._began_s, self.speed)
        return self._schedules[partition]

    def start(self, now_s: float, taken: Mapping[str, int]) -> None:
        """Sets the clocks to where everything below these offsets has been offered and taken.

        All take the clock of the one that is furthest behind: partitions that stopped may have drifted apart, and
        events of one time belong together as far as possible.
        """
        clocks = [self.schedule(partition).due_s(taken.get(partition, 0)) for partition in self._ends]
        clock_s = min((clock for clock in clocks if clock < math.inf), default=0.0)
        for partition in self._ends:
            offset = taken.get(partition, 0)
            self.states[partition] = SourceState(now_s, clock_s, offset, offset)

    def offer(self, now_s: float, taken: Mapping[str, int]) -> Offsets:
        """The offsets that the log offers, now that the recogniser has taken this much."""
        if not self.states:
            self.start(now_s, taken)
        for partition, offset in taken.items():
            self.take(partition, offset)
        for partition, state in self.states.items():
            self.states[partition] = pass_time(state, now_s, self.schedule(partition), self.capacity, stands=True)
        return {partition: state.offered for partition, state in self.states.items()}

    def take(self, partition: str, offset: int) -> None:
        """Notes that a batch has been planned that ends at this offset."""
        self.states[partition] = take(self.states[partition], offset)

    def at(self, state: SourceState, partition: str, now_s: float) -> SourceState:
        """A state that another process wrote, seen at a later time."""
        return pass_time(state, now_s, self.schedule(partition), self.capacity, stands=True)

    def due(self) -> Offsets:
        """What would have been offered by now if the clock had never stopped."""
        self.latest()
        return {p: self.schedule(p).n_due(state.clock_s + state.waited_s) for p, state in self.states.items()}

    def behind_s(self, states: Mapping[str, SourceState], newest_s: float) -> float | None:
        """How far an event's time is behind the time that the replay has reached on its schedule, in the data's time.

        A schedule ends with its last event; at the speed `max` there is none.
        """
        if self.speed == MAX or not states:
            return None
        lasts = [
            self._began_s + self.speed * self.schedule(p).due_s(rows - 1) for p, rows in self._ends.items() if rows
        ]
        reached_s = self._began_s + self.speed * max(state.clock_s + state.waited_s for state in states.values())
        return max(0.0, min(reached_s, max(lasts, default=newest_s)) - newest_s)

    # The log.

    @property
    def name(self) -> str:
        return self._name

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        with pa.memory_map(str(self.folder / "0.arrow")) as source:
            stored = pa.ipc.open_file(source).schema
        return pa.schema([stored.field(name) for name in wanted.names])

    def earliest(self) -> Offsets:
        return dict.fromkeys(self._ends, 0)

    def latest(self) -> Offsets:
        """What has been offered so far, by the clock of this copy; where no clock runs, where the data set ends."""
        return self.offer(self._clock.steady_s(), {}) if self.states else self.ends()

    def ends(self) -> Offsets:
        """Where the data set ends."""
        return dict(self._ends)

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        selection = Selection(wanted, schema, TimeRange(), 1 << 30)
        for rows in read_rows(self.folder, offsets.partition, offsets.start, offsets.end):
            block = to_block(rows)
            block.batches = [arrange(batch, selection, {}) for batch in block.batches]
            yield block

    def forget(self, before: Offsets) -> None:
        pass
