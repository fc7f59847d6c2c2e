"""The files of a checkpoint become the state in which a live stream goes on, and the batch that it has to repeat.

    ledger ──▶ the last batch that is done ──▶ the newest snapshot at or before it ──▶ read on silently up to it
          └──▶ a batch that is planned and not done ──▶ repeated with its own patterns, up to its own end

Where a snapshot is missing or damaged, an older one serves, or the beginning of the log, as far as the ledger and the
log go back. Otherwise the stream says what is missing, and does not begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wayeb_py.errors import DataError
from wayeb_py.parallel.durable.sealed_files import CHOICE
from wayeb_py.parallel.live.batch_ledger import KnownBatches
from wayeb_py.parallel.live.commits import GROUP, PARTITION, point_of
from wayeb_py.parallel.live.inputs import Inputs, StreamTypes
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.recovery.checkpoint import Manifest
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.pattern_versions import load_version
from wayeb_py.parallel.recovery.snapshots import Epoch, Snapshot, SnapshotChain, Snapshots
from wayeb_py.parallel.sinks.sinks import AsideFolder, Replaceable, Sink
from wayeb_py.parallel.stream.snapshot_policy import SnapshotKeeper
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.patterns import Patterns


@dataclass(frozen=True, slots=True)
class Version:
    """The patterns of a version, and what they read."""

    patterns: Patterns
    types: StreamTypes


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a stream goes on: its state, after a batch, and the batch that was begun."""

    keeper: SnapshotKeeper
    batch: int  # the last that is done; -1 if none is
    offset: Offset
    planned: Offset | None = None  # of the batch after it


@dataclass(frozen=True, slots=True)
class Resuming:
    """What a start needs to find the state that it goes on from."""

    folder: Path
    manifest: Manifest
    inputs: Inputs
    versions: Mapping[int, Version]  # that are at hand: this run's own
    episodes: bool
    listens: bool
    no_pickle: bool = False

    @property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.folder / "snapshots", self.manifest.stream_id)

    def version(self, number: int) -> Version:
        """A version that the checkpoint keeps."""
        if number in self.versions:
            return self.versions[number]
        kept = load_version(self.folder / "eras", number, self.manifest.stream_id, self.no_pickle)
        return Version(kept.groups[0], StreamTypes.of(kept.groups[0], kept.schema))

    def keeper(self, version: Version, snapshot: Snapshot | None = None) -> SnapshotKeeper:
        """A recogniser of these patterns in a state."""
        schemas = version.types.bound
        return SnapshotKeeper(StreamRecogniser(version.patterns, schemas, self.episodes, snapshot))

    def exchange(self, keeper: SnapshotKeeper, version: Version) -> SnapshotKeeper:
        """The same state under other patterns; unchanged ones keep theirs."""
        return self.keeper(version, keeper.recogniser.snapshot())

    def resume(self, known: KnownBatches) -> Resumed:
        """The state after the last batch that is done."""
        last = known.last_done
        planned = known.planned.get(last + 1)
        if planned is not None and not self.inputs.log.keeps:
            planned = None  # its events are gone
        first, keeper = self._start(known, last)
        offset = known.planned[first] if first >= 0 else Offset(dict(self.manifest.origin), Epoch())
        for batch in range(first + 1, last + 1):
            keeper = self._repeat(keeper, offset, known.planned[batch])
            offset = known.planned[batch]
        return Resumed(keeper, last, offset, planned)

    def _start(self, known: KnownBatches, last: int) -> tuple[int, SnapshotKeeper]:
        """The newest batch from whose state one can go on, and that state."""
        if last < 0:
            return last, self.keeper(self.version(self._first_version(known)))
        lowest = last
        while lowest - 1 in known.planned:
            lowest -= 1
        for batch in range(last, lowest - 1, -1):
            if known.done.get(batch):
                offset = known.planned[batch]
                chain = self.snapshots.read(GROUP, PARTITION, point_of(batch, offset))
                if chain is not None:
                    return batch, self._led_along(self.version(offset.epoch.version), chain)
        if lowest == 0 and self.inputs.log.keeps:
            return -1, self.keeper(self.version(known.planned[0].epoch.version))
        raise DataError(
            f"the state after batch {last} is gone, and it cannot be made again from an older one",
            str(self.snapshots.folder),
            hint=CHOICE,
        )

    def _first_version(self, known: KnownBatches) -> int:
        planned = known.planned.get(0)
        return len(self.manifest.pattern_versions) - 1 if planned is None else planned.epoch.version

    def _led_along(self, version: Version, chain: SnapshotChain) -> SnapshotKeeper:
        schemas = version.types.bound
        recogniser = StreamRecogniser(version.patterns, schemas, self.episodes, chain.whole)
        return SnapshotKeeper.of_chain(recogniser, chain)

    def _repeat(self, keeper: SnapshotKeeper, before: Offset, after: Offset) -> SnapshotKeeper:
        """The state after a batch that is done; what it finds has been written."""
        version = self.version(after.epoch.version)
        if before.epoch.version != after.epoch.version:
            keeper = self.exchange(keeper, version)
        else:
            keeper = SnapshotKeeper(keeper.recogniser)  # entities may have other numbers than in the kept changes
        recogniser = keeper.recogniser
        for partition, end in sorted(after.at.items()):
            start = before.at.get(partition, self.manifest.origin.get(partition, 0))
            stream = self.inputs.stream_of(partition)
            if start == end:
                continue
            for block in self.inputs.read(OffsetRange(partition, start, end), version.types):
                for batch in block.batches:
                    recogniser.inner.feed(batch, stream, partition if version.patterns.clocked else None)
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
    if known.manifest is None or known.manifest.get("stream_id") != stream_id:
        raise DataError("the ledger of the batches is gone, or of another stream", str(folder), hint=CHOICE)
    if known.n_damaged:
        raise DataError(f"{known.n_damaged} lines of the ledger are damaged", str(folder), hint=CHOICE)
    n_versions = len(manifest.pattern_versions)
    unknown = [offset.epoch.version for offset in known.planned.values() if offset.epoch.version >= n_versions]
    if unknown:
        raise DataError(
            f"batch {known.last} is of version {unknown[0]} of the patterns, and stream.json knows of {n_versions}",
            str(folder / "stream.json"), hint=CHOICE,
        )  # fmt: skip
    done = known.planned.get(known.last_done)
    if done is not None:
        inputs.log.refuse_lost(done.at)
    last = known.last if inputs.log.keeps else known.last_done
    places = [aside.put_away(stream_id, last)]
    if isinstance(sink, Replaceable):
        places.append(sink.put_away(stream_id, last))
    for place in places:
        if place is not None:
            say(f"what later batches had written is in {place}: their events are read again")
