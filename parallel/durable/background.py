"""A thread that writes what may wait becomes one that the system lets run when others do not want the processor."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

NICENESS = 10  # a tenth of the share of other threads: a thread that recognises all the time must not stop the writing


def yield_to_others() -> None:
    """Has this thread, alone, yield to the process's others: woken from the disk, it would else have the processor for
    some milliseconds first. Other systems than Linux know a niceness only of whole processes."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
