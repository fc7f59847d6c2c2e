"""Part files become an output folder that appears whole or not at all.

Tasks write below a hidden folder beside the output. Once all of them are done, the driver moves the parts that they
report to another folder, which no task knows: an attempt that Spark has given up, and that still runs, cannot add to
it. The driver writes a manifest `_wayeb.json` into that folder and exchanges it with the output in one step of the file
system; then it removes the old output, if that was one of ours. A run that fails leaves the old output, or none; a
rerun replaces it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import socket
from pathlib import Path
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import sync, telling_faults
from wayeb_py.files.stores import MANIFEST

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class OutputFolder:
    """The folder of an unfinished run."""

    def __init__(self, path: Path) -> None:
        # Replaces what a link leads to, and not the link.
        self.path = Path(os.path.realpath(path))
        if os.path.ismount(self.path):
            raise DataError(
                "the output cannot take the place of a file system",
                str(path),
                hint=f"name a folder in it: {path / 'found'}",
            )
        self._refuse_others()
        host = socket.gethostname()
        self._prefix = f".{self.path.name}.{host}-"
        own = f"{self._prefix}{os.getpid()}-{secrets.token_hex(4)}"
        self.staging = self.path.with_name(f"{own}.tmp")  # where tasks write
        self._whole = self.path.with_name(f"{own}-whole.tmp")  # what the output becomes

    def open(self) -> Path:
        """Makes the hidden folder that tasks write to, and removes those that killed runs have left."""
        with telling_faults(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for left in self.path.parent.glob(f"{self._prefix}*.tmp"):
                if not _is_alive(left.name.removeprefix(self._prefix).split("-")[0]):
                    shutil.rmtree(left, ignore_errors=True)
            self.staging.mkdir()
        return self.staging

    def commit(self, parts: dict[str, int], record: dict[str, Any]) -> None:
        """Puts the folder with these parts, and no others, in its place."""
        with telling_faults(self.path):
            for name in parts:
                if not (self.staging / name).is_file():
                    raise DataError(
                        "the parts that the executors wrote are not here",
                        str(self.path),
                        hint="the output folder must be on a file system that the driver and all executors share; "
                        "a single file (--out x.parquet) needs none",
                    )
            self._whole.mkdir()
            for name in parts:
                place = self._whole / name
                place.parent.mkdir(parents=True, exist_ok=True)
                os.rename(self.staging / name, place)
                sync(place)
            manifest = {"parts": dict(sorted(parts.items())), **record}
            text = json.dumps(manifest, indent=2, ensure_ascii=False, default=str) + "\n"
            (self._whole / MANIFEST).write_text(text)
            sync(self._whole / MANIFEST)
            for folder in {(self._whole / name).parent for name in parts} | {self._whole}:
                sync(folder)
            self._refuse_others()
            if self.path.exists():
                _exchange(self._whole, self.path)
            else:
                os.rename(self._whole, self.path)
            sync(self.path.parent)
        self.discard()

    def discard(self) -> None:
        """Leaves nothing behind; after `commit` there is nothing to discard."""
        # Under another name first: tasks that are still stopping then find no folder to write to.
        gone = self.staging.with_name(f"{self.staging.name}.gone.tmp")
        with contextlib.suppress(OSError):
            os.rename(self.staging, gone)
        for left in (gone, self._whole):
            shutil.rmtree(left, ignore_errors=True)

    def _refuse_others(self) -> None:
        """A folder is replaced only if it is empty or one of ours."""
        if not self.path.exists() or (self.path / MANIFEST).is_file():
            return
        if not self.path.is_dir() or any(self.path.iterdir()):
            raise DataError(
                "the output would replace what is not an output of an earlier run",
                str(self.path),
                hint="name a new folder, or an empty one; a single file ends in .parquet, .csv or .ndjson",
            )


def _exchange(one: Path, other: Path) -> None:
    """Exchanges two folders: in one step where the system can, otherwise in two."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        rename = None
    if rename is not None:
        paths = (os.fsencode(one), os.fsencode(other))
        if rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
            return
    between = one.with_name(one.name + ".old")
    os.rename(other, between)
    os.rename(one, other)
    os.rename(between, one)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
