"""Checks whether another user could have written a file, before a stream runs code from it.

A user's functions can only be kept as a pickle, and opening a pickle runs what is in it. So the file, its folder and
all folders above them must belong to us or to root, and no other user may write there; above the folder itself, a
folder that every user may write to is good enough if only owners may rename their files (`/tmp`). What access control
lists allow beyond the mode is not checked here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from wayeb_py.errors import DataError


def require_private(path: Path) -> None:
    """Raises DataError where another user than root could have put something else in the path's place."""
    given, path = path.absolute(), Path(os.path.realpath(path))
    for place in (path, *path.parents, *given.parents):  # exchanging a link on the way decides where it leads
        facts = place.lstat()
        who = None
        if facts.st_uid not in (os.geteuid(), 0):
            who = f"belongs to another user (number {facts.st_uid})"
        elif stat.S_ISLNK(facts.st_mode):  # a link has no mode of its own
            continue
        elif facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not _is_shared_rightly(place, path, facts):
            who = f"can be written by others than its owner (mode {stat.S_IMODE(facts.st_mode):o})"
        if who is not None:
            raise DataError(
                f"functions written in Python are kept as a pickle, which runs whatever it holds, and this place {who}",
                str(place),
                hint=f"keep the checkpoint where only you can write (`chmod go-w '{place}'`), or do without functions",
            )


def _is_shared_rightly(place: Path, path: Path, facts: os.stat_result) -> bool:
    return place not in (path, path.parent) and bool(facts.st_mode & stat.S_ISVTX)
