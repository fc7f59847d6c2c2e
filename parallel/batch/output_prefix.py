"""Part files become an output in a store that counts as a whole or not at all: a manifest lists its parts.

    OUT/_unfinished-RUN/part-…   tasks put their parts here, where readers do not look
    OUT/part-…                   the store moves the parts of finished tasks here, under names that no other run uses
    OUT/_wayeb.json              one put replaces the manifest: from then on the output is the new one

A store cannot rename a folder, nor two objects at once; one put is all that it does in one step. The manifest is that
put, so a reader that goes by it sees the old output or the new one. Parts that it does not name do not count: a run
removes those of the old output once it has replaced the manifest, and those of a killed run when it ends. A reader that
lists the folder instead can see parts of both while the manifest changes, and never a part of an attempt that was given
up.

*Not taken*: a conditional put for each part, which orders the writers of one object, but cannot make many objects
appear at once.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from pathlib import PurePosixPath
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.files.stores import MANIFEST, StorePath, manifest_parts

_UNFINISHED = re.compile(r"_unfinished-[0-9a-f]{12}")
_PART = re.compile(r"part-\d{5}(-[0-9a-f]{8}-\d+)?\.parquet")


class OutputPrefix:
    """The output of an unfinished run in a store."""

    def __init__(self, path: StorePath) -> None:
        self.path = path
        self._run = secrets.token_hex(6)
        self.staging = path / f"_unfinished-{self._run}"
        self._refuse_others()

    def open(self) -> StorePath:
        """Where tasks put their parts."""
        return self.staging

    def commit(self, parts: dict[str, int], record: dict[str, Any]) -> None:
        """Makes these parts, and no others, the output."""
        for name in parts:
            (self.staging / name).move_to(self.path / name)
        manifest = {"parts": dict(sorted(parts.items())), **record}
        text = json.dumps(manifest, indent=2, ensure_ascii=False, default=str) + "\n"
        write_whole(self.path / MANIFEST, text.encode())
        for path, _ in list(self.path.below()):
            inside = str(path.key.relative_to(self.path.key))
            if inside not in parts and _is_ours(PurePosixPath(inside)):
                path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Leaves nothing behind, where the store answers; else the next run removes it. After `commit` there is nothing
        to discard."""
        with contextlib.suppress(DataError):  # what ended the run says more, or it ended well
            self.staging.remove_folder()

    def _refuse_others(self) -> None:
        """An output is replaced only if it is one of ours, or what a killed run left."""
        if manifest_parts(self.path) is not None:
            return
        if any(not _is_ours(path.key.relative_to(self.path.key)) for path, _ in self.path.below()):
            raise DataError(
                "the output would replace what is not an output of an earlier run",
                str(self.path),
                hint="name another folder, or an empty one; a single file ends in .parquet, .csv or .ndjson",
            )


def _is_ours(inside: PurePosixPath) -> bool:
    return _UNFINISHED.fullmatch(inside.parts[0]) is not None or _PART.fullmatch(inside.name) is not None
