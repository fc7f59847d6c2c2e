"""A run removes what a killed run left behind: unfinished files beside an output, and folders for sorting.

A name does not show whether its owner lives: a process id may belong to another process by now, or to another
machine that shares the folder. So a writer locks its file, and the system drops the lock when the process ends, however
it ends: a file that we can lock has no owner left. We look only at names of our own making, only at what belongs to
this user, and at nothing younger than a minute, which may be about to be locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from wayeb_py.clock import SYSTEM, Clock

OLD_S = 60.0
_OWNER = ".owner"  # in a folder of ours: the process that holds its lock owns the folder


def hold(descriptor: int) -> None:
    """Marks an open file as this process's own; where the file system has no locks, nothing is ever removed."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def clear_files(folder: Path, names: Iterable[str], clock: Clock = SYSTEM) -> None:
    """Removes the unfinished files that dead runs left beside files with these names."""
    alternatives = "|".join(re.escape(name) for name in names)
    unfinished = re.compile(rf"\.(?:{alternatives})\.\d+-[0-9a-f]{{8}}\.tmp")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if unfinished.fullmatch(entry.name) and _is_orphan(Path(entry.path), clock):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


@contextlib.contextmanager
def scratch_folder(prefix: str, clock: Clock = SYSTEM) -> Iterator[Path]:
    """A temporary folder that disappears with its owner; folders of dead owners are removed first."""
    _clear_folders(Path(tempfile.gettempdir()), prefix, clock)
    with tempfile.TemporaryDirectory(prefix=prefix) as made:
        owner = os.open(Path(made) / _OWNER, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            hold(owner)
            yield Path(made)
        finally:
            os.close(owner)


def _clear_folders(parent: Path, prefix: str, clock: Clock) -> None:
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if not entry.name.startswith(prefix) or not entry.is_dir(follow_symlinks=False):
                continue
            if _is_orphan(Path(entry.path) / _OWNER, clock):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_orphan(path: Path, clock: Clock) -> bool:
    """Whether a file is this user's, old enough, and held by no process; links are not followed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid() or clock.wall_s() - facts.st_mtime < OLD_S:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
