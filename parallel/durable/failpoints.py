"""Named places where a test can kill or hold a process, so that recovery is tested where it is hardest.

`WAYEB_FAILPOINTS=FOLDER` names a folder of traps: files that are called after a place. The first process that comes to
the place takes the trap, which becomes `PLACE@PID`, and dies there (SIGKILL: it flushes nothing, cleans nothing up). A
trap that contains `hold` keeps the process there instead, while the file exists, so that a test can meanwhile
kill another: the driver, an executor. `PLACE:3` is a trap for the third time that a process comes there. A test may lay
traps while a stream is running. Unset it costs one comparison.

    plan              a batch's end has been chosen              sink:before    a batch is collected, none of it written
    read:begin        a task begins with its range               sink:inside    its file is begun, not in its place
    read:yield        it is about to hand on a parcel            sink:after     its output is in its place, not counted
    snapshot:before   the state is not yet on the disk           counted        and counted; Spark does not know
    snapshot:after    it is, and the task has not ended          commit         Spark knows; nothing is cleared away
    shard:state       a shard has not handed on its state        collect        an old snapshot is about to go
    part:state        nor has a part of rules
    step              in a live stream: some events are fed, their detections on their way
    journal:before    records are received, not on the disk      journal:after  they are, and no process knows
    store:packed      changes are in the store, no manifest      store:kept     it is, and no output is written
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

POINTS = (
    "plan", "read:begin", "read:yield", "snapshot:before", "snapshot:after", "shard:state", "part:state",
    "sink:before", "sink:inside", "sink:after", "counted", "commit", "collect", "step",
    "journal:before", "journal:after", "store:packed", "store:kept",
)  # fmt: skip
HOLD = "hold"
HELD_S = 300.0  # the longest hold: the test that laid the trap may be gone
_LOOK_EVERY_S = 0.02

_reached: Counter[str] = Counter()


def reach(point: str) -> None:
    """Dies or waits here if there is a trap."""
    folder = os.environ.get("WAYEB_FAILPOINTS")
    if folder is not None:
        _reached[point] += 1
        for name in (point, f"{point}:{_reached[point]}"):
            _perhaps_fall(Path(folder), name)


def lay(folder: Path, name: str, text: str = "") -> None:
    """Lays a trap, whole before any process sees it."""
    if name.rstrip("0123456789").rstrip(":") not in POINTS:
        raise ValueError(f"there is no place {name}; there are {', '.join(POINTS)}")
    folder.mkdir(parents=True, exist_ok=True)
    ready = folder / f".{name}"
    ready.write_text(text)
    ready.rename(folder / name)


def _perhaps_fall(folder: Path, name: str) -> None:
    taken = folder / f"{name}@{os.getpid()}"
    try:
        (folder / name).rename(taken)  # only one process can do that
        text = taken.read_text()
    except FileNotFoundError:
        return
    if text != HOLD:
        os.kill(os.getpid(), signal.SIGKILL)
        return
    end_s = time.monotonic() + HELD_S
    while taken.exists() and time.monotonic() < end_s:
        time.sleep(_LOOK_EVERY_S)
