"""Named places where a process can be told to die, so that recovery is tested where it is hardest.

`WAYEB_FAULT=snapshot:before:3` kills the process (SIGKILL: nothing is flushed, nothing is cleaned up) when it reaches
that place for the third time; without a number, the first time. Times are counted in each process by itself, or, with
`WAYEB_FAULT_ONCE=FILE`, the first process that dies leaves the file, and no other does. Unset it costs one comparison.

    read:begin        a task begins with its stretch             sink:before         before a batch's output is written
    read:yield        it is about to hand on a parcel            sink:after-rename   the output is in its place
    snapshot:before   the state is not yet on the disk           commit              old snapshots are about to go
    snapshot:after    it is, and the task has not ended          plan                a batch's end has been chosen
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "read:begin", "read:yield", "snapshot:before", "snapshot:after", "sink:before", "sink:after-rename", "commit",
    "plan",
)  # fmt: skip

_reached = 0


def reach(point: str) -> None:
    """Dies here if `WAYEB_FAULT` says so."""
    wanted = os.environ.get("WAYEB_FAULT")
    if wanted is not None:
        _perhaps_die(point, wanted)


def _perhaps_die(point: str, wanted: str) -> None:
    global _reached
    name, colon, count = wanted.rpartition(":")
    if not colon or not count.isdecimal():
        name, count = wanted, "1"
    if name not in POINTS:
        raise ValueError(f"WAYEB_FAULT names no fault point: {wanted}; there are {', '.join(POINTS)}")
    if name != point:
        return
    _reached += 1
    if _reached != int(count):
        return
    once = os.environ.get("WAYEB_FAULT_ONCE")
    if once is not None:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
