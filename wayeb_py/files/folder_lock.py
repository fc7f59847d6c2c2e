"""One process at a time holds a folder, by a lock that the system releases however the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from wayeb_py.errors import PassingError
from wayeb_py.files.output.whole_file import make_folder, telling_faults


def hold_folder(folder: Path, user: str, what: str) -> int:
    """Makes the folder if there is none, and holds it until the returned descriptor is closed; PassingError where
    another process does: it may end by itself."""
    with telling_faults(folder):
        make_folder(folder)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise PassingError(f"another {user} is using this {what}", str(folder)) from error
    return lock
