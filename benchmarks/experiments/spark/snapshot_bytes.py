"""Measures the bytes of state that a batch of a stream writes: a few events among many entities, by changes and whole.

    python -m benchmarks.experiments.spark.snapshot_bytes 1000000

Prints seconds and bytes for the whole state, for batches of 2 to 100,000 events, and for reading it all again; the
state that is read again has to give the same detections. It is no experiment of `make bench`: it has no yardstick
beside itself.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import wayeb_py
from wayeb_py.parallel.recovery.snapshots import Epoch, SnapshotPoint, Snapshots
from wayeb_py.parallel.stream.snapshot_policy import SnapshotKeeper
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser

TEXT = """stream s { key id time ts in s }
pattern Fast  := (v > 50){2,}
pattern Swing := (v > 50) ; (v < 40) ; (v > 50) emit v
pattern Long  := (v > 90) ; (v < 50)* ; (v > 95) within 1 h
"""
BATCHES = (2, 2, 1_000, 100_000)


def events(n: int, ts: int) -> pa.Table:
    """An event of each of the first entities."""
    return pa.table({"id": np.arange(n) * 7919, "ts": np.full(n, ts), "v": np.arange(n) * 31 % 100})


def main(n_entities: int) -> None:
    patterns, schema = wayeb_py.compile(TEXT), events(1, 0).schema
    keeper = SnapshotKeeper(StreamRecogniser(patterns, schema, False, None))
    with tempfile.TemporaryDirectory() as folder:
        snapshots = Snapshots(Path(folder))
        offset = 0
        for number, n_events in enumerate((n_entities, *BATCHES)):
            n_taken = min(n_events, n_entities)
            keeper.recogniser.inner.feed(events(n_taken, number))
            offset += n_taken
            began_s = time.perf_counter()
            keeper.prepare(may_change=True)
            keeper.write(snapshots, 0, "", SnapshotPoint(Epoch(), offset))
            took_s = time.perf_counter() - began_s
            newest = max(Path(folder).rglob("*.*"), key=lambda path: path.stat().st_mtime_ns)
            what = "whole" if newest.suffix == ".state" else "changes"
            print(f"{n_taken:>10,} events   {what:<7} {newest.stat().st_size:>12,} bytes   {took_s:8.3f} s")
        began_s = time.perf_counter()
        chain = snapshots.read(0, "", SnapshotPoint(Epoch(), offset))
        assert chain is not None
        again = SnapshotKeeper.of_chain(StreamRecogniser(patterns, schema, False, chain.whole), chain)
        print(f"read again, with {len(chain.changes)} changes {time.perf_counter() - began_s:32.3f} s")
        began_s = time.perf_counter()
        whole = keeper.recogniser.snapshot()
        snapshots.write(0, "", SnapshotPoint(Epoch(), offset + 1), whole)
        print(f"the whole at every batch, as it was before {time.perf_counter() - began_s:24.3f} s a batch")
        rest = events(min(1000, n_entities), 99)
        same = keeper.recogniser.inner.feed(rest).to_arrow().equals(again.recogniser.inner.feed(rest).to_arrow())
        print("the same detections from what was read again" if same else "DIFFERENT detections")
        raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
