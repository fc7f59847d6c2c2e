"""The files of a checkpoint become the state from which a live stream continues, and the batch that it has to repeat.

    ledger ──▶ the last batch that is done ──▶ the newest snapshot at or before it ──▶ read on silently up to it
          └──▶ a batch that is planned and not done ──▶ repeated with its own patterns, up to its own end

Where a snapshot is missing or damaged, an older one serves, or the beginning of the log, as far as the ledger and the
log go back. Otherwise the stream says what is missing, and does not begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.engine.priority_levels.lanes import Lane
from wayeb_py.errors import DataError
from wayeb_py.parallel.durable.sealed_files import CHOICE
from wayeb_py.parallel.live.batch_ledger import KnownBatches
from wayeb_py.parallel.live.commits import GROUP, PARTITION, point_of
from wayeb_py.parallel.live.inputs import Inputs, StreamTypes
from wayeb_py.parallel.live.lanes.lane_offsets import LaneOffsets
from wayeb_py.parallel.live.lanes.live_lanes import LiveLanes, ServiceOptions, State, is_leveled, lanes_as, lanes_from
from wayeb_py.parallel.recovery.checkpoint import Manifest
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.pattern_versions import load_version
from wayeb_py.parallel.recovery.recover import put_away_later, refuse_unknown_version
from wayeb_py.parallel.recovery.snapshots import Epoch, Snapshot, SnapshotChain, Snapshots
from wayeb_py.parallel.sinks.sinks import AsideFolder, Sink
from wayeb_py.parallel.stream.snapshot_policy import SnapshotKeeper
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.patterns import Patterns

LaneNames = tuple[tuple[str, ...], ...]  # [lane]: its patterns and rules


@dataclass(frozen=True, slots=True)
class Version:
    """The patterns of a version, and what they read."""

    patterns: Patterns
    types: StreamTypes


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a stream continues: its state, after a batch, and the batch that was begun."""

    keeper: State
    batch: int  # the last batch that is done; -1 if none is
    offset: Offset
    planned: tuple[Offset, ...] = ()  # the offsets of the batches after it


@dataclass(frozen=True, slots=True)
class Resuming:
    """What a start needs to find the state that it continues."""

    folder: Path
    manifest: Manifest
    inputs: Inputs
    versions: Mapping[int, Version]  # the versions at hand: this run's own
    episodes: bool
    listens: bool
    no_pickle: bool = False
    service: ServiceOptions = field(default_factory=ServiceOptions)
    clock: Clock = SYSTEM

    @property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.folder / "snapshots", self.manifest.stream_id)

    def version(self, number: int) -> Version:
        """A version that the checkpoint keeps."""
        if number in self.versions:
            return self.versions[number]
        kept = load_version(self.folder / "eras", number, self.manifest.stream_id, self.no_pickle)
        return Version(kept.groups[0], StreamTypes.of(kept.groups[0], kept.schema))

    def keeper(
        self,
        version: Version,
        before: Sequence[Sequence[str]] = (),
        snapshots: Sequence[Snapshot] = (),
        planned: LaneNames | None = None,
    ) -> State:
        """Recognisers of these patterns, in the states of the lanes that there were before, by their names.

        `planned` are the lanes of a batch that is repeated, and none where it had none.
        """
        lanes, whence = lanes_from(version.patterns, self.service, before)
        if planned:
            lanes = lanes_as(version.patterns, self.service, planned)
            whence = [next((nth for nth, some in enumerate(before) if {*some} & {*own}), None) for own in planned]
        states = [None if nth is None else snapshots[nth] for nth in whence]
        if planned == () or (planned is None and not is_leveled(version.patterns, lanes)):
            schemas = version.types.bound
            return SnapshotKeeper(StreamRecogniser(version.patterns, schemas, self.episodes, states[0]))
        keepers = [SnapshotKeeper(one) for one in self._recognisers(version, lanes, states)]
        return self._lanes(version, lanes, keepers)

    def exchange(self, keeper: State, version: Version, planned: LaneNames | None = None) -> State:
        """Moves the state to other patterns, or other lanes; unchanged patterns keep theirs. No events may wait."""
        if isinstance(keeper, LiveLanes):
            states = [one.recogniser.snapshot() for one in keeper.keepers]
            changed = self.keeper(version, keeper.names, states, planned)
            if isinstance(changed, LiveLanes):
                changed.continue_numbers(keeper)
            return changed
        patterns = keeper.recogniser.inner.patterns
        names = [*patterns.names, *patterns.rule_names]
        return self.keeper(version, [names], [keeper.recogniser.snapshot()], planned)

    def is_another(self, keeper: State, version: Version) -> bool:
        """Whether these patterns are served in other lanes than the state has."""
        names = lane_names(keeper)
        lanes, _ = lanes_from(version.patterns, self.service, names)
        if is_leveled(version.patterns, lanes):
            return tuple(lane.names for lane in lanes) != names
        return isinstance(keeper, LiveLanes)

    def _recognisers(
        self, version: Version, lanes: Sequence[Lane], snapshots: Sequence[Snapshot | None]
    ) -> list[StreamRecogniser]:
        """The recognisers of lanes. The first lane that reads a stream counts its events, and sets aside what is none:
        so no lane has to look at events that only less urgent ones read."""
        parts = [version.patterns.part(lane.names) for lane in lanes]
        counted: list[list[str]] = [[] for _ in lanes]
        for stream in version.patterns.by_stream:
            counted[next((nth for nth, one in enumerate(parts) if stream in one.by_stream), 0)].append(stream)
        found = []
        for patterns, own, snapshot in zip(parts, counted, snapshots, strict=True):
            schemas = {n: schema for n, schema in version.types.bound.items() if n in own or n in patterns.by_stream}
            found.append(StreamRecogniser(patterns, schemas, self.episodes, snapshot, version.patterns, own))
        return found

    def _lanes(self, version: Version, lanes: Sequence[Lane], keepers: Sequence[SnapshotKeeper]) -> LiveLanes:
        return LiveLanes(
            version.patterns, lanes, keepers, version.types,
            sheds=self.service.sheds, episodes=self.episodes, clock=self.clock,
        )  # fmt: skip

    def resume(self, known: KnownBatches) -> Resumed:
        """The state after the last batch that is done."""
        last = known.last_done
        first, keeper = self._start(known, last)
        offset = known.planned[first] if first >= 0 else Offset(dict(self.manifest.origin), Epoch())
        for batch in range(first + 1, last + 1):
            keeper = self._repeat(keeper, offset, known.planned[batch])
            offset = known.planned[batch]
        planned = known.after(last) if self.inputs.log.keeps else []  # otherwise their events are gone
        return Resumed(keeper, last, offset, tuple(planned))

    def _start(self, known: KnownBatches, last: int) -> tuple[int, State]:
        """The newest batch whose state can be continued, and that state."""
        if last < 0:
            return last, self.keeper(self.version(self._first_version(known)))
        lowest = last
        while lowest - 1 in known.planned:
            lowest -= 1
        for batch in range(last, lowest - 1, -1):
            if known.done.get(batch):
                offset = known.planned[batch]
                n_groups = len(offset.levels["lanes"]) if offset.levels else 1
                point = point_of(batch, offset)
                chains = [self.snapshots.read(GROUP + nth, PARTITION, point) for nth in range(n_groups)]
                if None not in chains:
                    known_chains = [chain for chain in chains if chain is not None]
                    return batch, self._led_along(self.version(offset.epoch.version), known_chains, offset)
        if lowest == 0 and self.inputs.log.keeps:
            return -1, self.keeper(self.version(known.planned[0].epoch.version))
        raise DataError(
            f"the state after batch {last} is gone, and it cannot be made again from an older one",
            str(self.snapshots.files.folder),
            hint=CHOICE,
        )

    def _first_version(self, known: KnownBatches) -> int:
        planned = known.planned.get(0)
        return len(self.manifest.pattern_versions) - 1 if planned is None else planned.epoch.version

    def _led_along(self, version: Version, chains: Sequence[SnapshotChain], offset: Offset) -> State:
        if not offset.levels:
            recogniser = StreamRecogniser(version.patterns, version.types.bound, self.episodes, chains[0].whole)
            return SnapshotKeeper.of_chain(recogniser, chains[0])
        lanes = lanes_as(version.patterns, self.service, LaneOffsets.from_json(offset.levels).names)
        recognisers = self._recognisers(version, lanes, [chain.whole for chain in chains])
        keepers = [SnapshotKeeper.of_chain(one, chain) for one, chain in zip(recognisers, chains, strict=True)]
        restored = self._lanes(version, lanes, keepers)
        restored.restore_waiting(offset, self.inputs)
        return restored

    def _repeat(self, keeper: State, before: Offset, after: Offset) -> State:
        """The state after a batch that is done; what it finds has been written."""
        version = self.version(after.epoch.version)
        if before.epoch.version != after.epoch.version or lane_names(keeper) != planned_names(after):
            keeper = self.exchange(keeper, version, planned_names(after))
        else:
            keeper = anew(keeper)
        if isinstance(keeper, LiveLanes):
            keeper.repeat(before, after, self.manifest.origin, self.inputs, self.listens)
            return keeper
        recogniser = keeper.recogniser
        for offsets in before.ranges(after, self.manifest.origin):
            stream = self.inputs.stream_of(offsets.partition)
            if offsets.start == offsets.end:
                continue
            for block in self.inputs.read(offsets, version.types):
                for batch in block.batches:
                    recogniser.inner.feed(batch, stream, offsets.partition if version.patterns.clocked else None)
                if self.listens:
                    recogniser.hear(block.batches, after.clock_s, stream)
        if version.patterns.clocked:
            for stream in self.inputs.logs:
                own = self.inputs.of_stream(stream, after.spoke_s)
                recogniser.inner.follow(own, [p for p in own if after.spoke_s[p] < after.epoch.tick], stream)
        for _ in recogniser.advance(before.epoch, after.epoch, after.clock_s):
            pass
        recogniser.inner.aside.clear()
        return keeper


def anew(keeper: State) -> State:
    """Makes the next snapshot of each recogniser a whole one: entity numbers may differ from those in the saved
    changes."""
    if isinstance(keeper, LiveLanes):
        keeper.keepers = [SnapshotKeeper(one.recogniser) for one in keeper.keepers]
        return keeper
    return SnapshotKeeper(keeper.recogniser)


def lane_names(keeper: State) -> LaneNames:
    """The names in the lanes of a state; none where it has no lanes."""
    return keeper.names if isinstance(keeper, LiveLanes) else ()


def planned_names(offset: Offset) -> LaneNames:
    """The names in the lanes of a batch; none where it has no lanes."""
    return LaneOffsets.from_json(offset.levels).names if offset.levels else ()


def check_ends(
    known: KnownBatches,
    manifest: Manifest,
    inputs: Inputs,
    sink: Sink,
    aside: AsideFolder,
    folder: Path,
    say: Callable[[str], None],
) -> None:
    """Checks the source and puts away what the output has of batches that nothing knows of; DataError where the stream
    cannot continue."""
    stream_id = manifest.stream_id
    if known.is_empty and not any((folder / "snapshots").glob("*")):  # killed before it began its ledger
        put_away_later(sink, aside, stream_id, -1, say)
        return
    if known.manifest is None or known.manifest.get("stream_id") != stream_id:
        raise DataError("the ledger of the batches is gone, or of another stream", str(folder), hint=CHOICE)
    if known.n_damaged:
        raise DataError(f"{known.n_damaged} lines of the ledger are damaged", str(folder), hint=CHOICE)
    versions = (offset.epoch.version for offset in known.planned.values())
    refuse_unknown_version(versions, known.last, manifest, folder)
    done = known.planned.get(known.last_done)
    if done is not None:
        inputs.log.refuse_lost(done.at)
    last = known.last if inputs.log.keeps else known.last_done
    put_away_later(sink, aside, stream_id, last, say)
