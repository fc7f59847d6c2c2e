"""A state folder keeps what a run ended with, so that the next run continues from there (the nightly job).

The detections take their place before the state does: a run that dies between the two is repeated from the old state,
and gives the same detections again. The number of the run is in the state, and in the name of the file where detections
go to a folder: the repeated run replaces its own file, and nothing is there twice. The other order would lose
detections.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from pathlib import Path
from types import TracebackType

from wayeb_py.errors import DataError
from wayeb_py.files.folder_lock import hold_folder
from wayeb_py.files.output.leftovers import clear_files
from wayeb_py.files.output.whole_file import telling_faults, write_whole
from wayeb_py.files.stores import StorePath, located

_NAME = "recogniser.state"
_VERSION = 2


def _checksum(n_runs: int, state: bytes) -> str:
    """The checksum of everything that a state file says: a wrong number of runs would replace another night's
    detections."""
    digest = hashlib.sha256(f"{_VERSION} {n_runs}\n".encode())
    digest.update(state)
    return digest.hexdigest()


class StateFolder:
    """A folder with the recogniser's state; while it is open no other run can use it."""

    def __init__(self, where: str | os.PathLike[str]) -> None:
        folder = located(where)
        if isinstance(folder, StorePath):
            raise DataError(
                "a state folder is locked while a run uses it, and a store has no locks", str(folder),
                hint="name a folder on a disk; events, knowledge and detections may be in a store",
            )  # fmt: skip
        self.path = folder / _NAME
        self.n_runs = 0  # the runs that ended well
        self.saved: bytes | None = None
        self._lock = hold_folder(folder, "run", "state")
        clear_files(folder, [_NAME])
        try:
            self.name = self._read_name(folder / "name")
            self._load()
        except BaseException:
            os.close(self._lock)
            raise

    def _read_name(self, path: Path) -> str:
        """The name that distinguishes this state's runs from those of others, wherever the folder is moved."""
        with telling_faults(path):
            if not path.exists():
                write_whole(path, f"wayeb-{uuid.uuid4()}\n".encode())
            return path.read_text().strip()

    def _load(self) -> None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise DataError(f"the state cannot be read: {error.strerror}", str(self.path)) from error
        head, _, saved = content.partition(b"\n")
        try:
            facts = json.loads(head)
            version, self.n_runs = int(facts["wayeb_state"]), int(facts["n_runs"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError("this is not a state of wayeb", str(self.path)) from error
        if version not in (1, _VERSION):
            raise DataError(
                f"the state has version {version}, and this wayeb reads {_VERSION}", str(self.path),
                hint="go on with the release that wrote it, or remove it to start afresh",
            )  # fmt: skip
        if version != 1 and facts.get("sha256") != _checksum(self.n_runs, saved):  # version 1 left out its head
            raise DataError(
                "the state is damaged: its checksum does not fit", str(self.path),
                hint="restore it from a copy, or remove it to start afresh",
            )  # fmt: skip
        self.saved = saved

    def save(self, state: bytes) -> None:
        """Replaces the state by that of a run that ended well."""
        n_runs = self.n_runs + 1
        head = {"wayeb_state": _VERSION, "n_runs": n_runs, "sha256": _checksum(n_runs, state)}
        write_whole(self.path, json.dumps(head).encode() + b"\n", state)

    def __enter__(self) -> StateFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)
