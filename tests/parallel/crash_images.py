"""What a disk holds after a power cut: a file system that forgets whatever was not forced to the disk.

A recorder notes every fsync of this process: of a file, how long it was and when it was last written; of a folder, its
names. An image is a copy of a folder in which a file that was written since, or never forced, has lost what it had
gained, and a name that was given since is gone, or stays with an empty file: file systems do either.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


class Recorder:
    """Notes what reaches the disk while the patch is in place."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._files: dict[int, tuple[int, int]] = {}  # by inode: bytes, time of the last change
        self._folders: dict[int, dict[str, int]] = {}  # by inode: inodes by name
        self.n_synced = 0
        sync: Callable[[int], None] = os.fsync

        def noted(descriptor: int) -> None:
            sync(descriptor)
            self._note(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

        patch.setattr(os, "fsync", noted)

    def _note(self, path: Path) -> None:
        self.n_synced += 1
        facts = path.stat()
        if path.is_dir():
            self._folders[facts.st_ino] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._files[facts.st_ino] = facts.st_size, facts.st_mtime_ns

    def image(self, folder: Path, target: Path, names_stay: bool) -> None:
        """The remains of a folder, whose own name is known to be on the disk."""
        target.mkdir(parents=True)
        synced = self._folders.get(folder.stat().st_ino, {})
        for entry in os.scandir(folder):
            if not names_stay and synced.get(entry.name) != entry.inode():
                continue
            if entry.is_dir():
                self.image(folder / entry.name, target / entry.name, names_stay)
            else:
                (target / entry.name).write_bytes(self._content(folder / entry.name))

    def _content(self, path: Path) -> bytes:
        facts = path.stat()
        n_bytes, written_ns = self._files.get(facts.st_ino, (0, 0))
        content = path.read_bytes()
        return content if (n_bytes, written_ns) == (facts.st_size, facts.st_mtime_ns) else content[:n_bytes]
