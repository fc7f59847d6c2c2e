"""A checkpoint in a store: a stream works on a copy in a folder of this machine, which the store has before any output.

    claims/EPOCH-OWNER                  the runs that took the checkpoint over; the greatest has it
    manifests/EPOCH-OWNER-NUMBER        which files there are, and where in which pack; the greatest is the checkpoint
    packs/EPOCH-OWNER-NUMBER            the content of files that were new or had changed

A store has no locks and no renames, but a put is whole, and everyone sees it from then on. Before the output of a batch
is written, its plan and all that it depends on are in a manifest. A run that starts restores the greatest one, and
repeats the batch that it plans, with the same events under the same number: the output replaces it, or notices it.

Two runs at once: one that starts puts its claim, and then reads the greatest manifest. One that is about to write the
output of a batch has put its manifest, and then reads the claims; with a greater one there it stops, and writes
nothing. Whichever of the two put first, the other sees it. So either the new run repeats the very batch that the old
one writes, or the old one does not write it. *Not taken*: conditional puts, which Arrow's clients do not have.

Tasks of a cluster do not see the folder: what they need lies in objects (`run_objects`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.folder_lock import hold_folder
from wayeb_py.files.output.whole_file import telling_faults
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.durable.sealed_files import seal, unseal
from wayeb_py.parallel.recovery import run_objects
from wayeb_py.parallel.recovery.checkpoint import Checkpoint, Restart
from wayeb_py.parallel.recovery.run_objects import FileFacts, RunObjects

MOST_PACKS = 64  # with more, everything is packed again
KEPT_MANIFESTS = 2
IN_MEMORY_BYTES = 32 << 20
_PIECE = 1 << 20
_NOT_KEPT = ("lock", "stop", "overflow")


@dataclass(frozen=True, slots=True)
class _Packed:
    """Where the content of a file is."""

    pack: str
    start: int
    n_bytes: int
    sha256: str


class StoreCheckpoint(Checkpoint):
    """A checkpoint whose folder is a copy of what a store has; `keep` puts what has changed there."""

    is_copy = True

    def __init__(self, address: StorePath, restart: Restart | None = None, work: Path | None = None) -> None:
        self.address = address
        folder = _work_folder(address) if work is None else work
        held = hold_folder(folder.with_name(f"{folder.name}.held"), "stream", "checkpoint")
        self._held = held
        self._number = 0
        self._objects: RunObjects | None = None
        self._is_cleared = False  # of what earlier runs have left
        self._files: dict[str, _Packed] = {}
        self._facts: dict[str, FileFacts] = {}
        try:
            self._claim_it()
            self._restore(folder)
            super().__init__(folder, restart)
        except BaseException:
            os.close(held)
            raise

    @property
    def name(self) -> str:
        return str(self.address)

    def _claim_it(self) -> None:
        claims = _names(self.address / "claims")
        self._epoch = 1 + max((int(name.partition("-")[0]) for name in claims), default=0)
        self._own = f"{self._epoch:06}-{secrets.token_hex(4)}"
        _put(self.address / "claims" / self._own, b"")

    def _restore(self, folder: Path) -> None:
        """Makes the folder what the greatest manifest says."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        manifests = _names(self.address / "manifests")
        if not manifests:
            return
        place = self.address / "manifests" / manifests[-1]
        try:
            self._files = {name: _Packed(*facts) for name, facts in unseal(place.read_bytes())["files"].items()}
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"the checkpoint cannot be read: {error}", str(place)) from error
        by_pack: dict[str, list[tuple[str, _Packed]]] = {}
        for name, packed in self._files.items():
            by_pack.setdefault(packed.pack, []).append((name, packed))
        for pack, own in by_pack.items():
            with (self.address / "packs" / pack).open_input() as source:
                for name, packed in own:
                    source.seek(packed.start)
                    self._unpack(folder / name, packed, source)
                    self._facts[name] = FileFacts.of(folder / name)

    def _unpack(self, path: Path, packed: _Packed, source: io.RawIOBase) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, left = hashlib.sha256(), packed.n_bytes
        with telling_faults(path), open(path, "wb") as file:
            while left and (piece := source.read(min(left, _PIECE))):
                file.write(piece)
                digest.update(piece)
                left -= len(piece)
        if digest.hexdigest() != packed.sha256:
            raise DataError(
                f"the checkpoint is damaged: `{path.name}` is not what was put there", str(self.address),
                hint="begin anew: --restart beginning, or --restart now",
            )  # fmt: skip

    def share(self, as_objects: bool) -> RunObjects | None:
        if as_objects or (self.folder / run_objects.FILE).exists():
            self._objects = run_objects.begin_run(self.folder, self.address, self._own)
            shutil.rmtree(self.folder / "snapshots", ignore_errors=True)
        return self._objects

    def keep(self) -> None:
        """Puts what has changed since the last time; PassingError where another run has taken the checkpoint over."""
        self._number += 1
        name = f"{self._own}-{self._number:09}"
        there = {path.relative_to(self.folder).as_posix(): path for path in self._there()}
        is_whole = len({one.pack for one in self._files.values()}) >= MOST_PACKS
        self._files = {} if is_whole else {one: packed for one, packed in self._files.items() if one in there}
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, prefix="wayeb-pack-") as pack:
            for relative, path in sorted(there.items()):
                self._pack(relative, path, name, pack)
            if pack.tell():
                (self.address / "packs" / name).upload(pack)
        failpoints.reach("store:packed")
        files = {one: [packed.pack, packed.start, packed.n_bytes, packed.sha256] for one, packed in self._files.items()}
        _put(self.address / "manifests" / name, seal(json.dumps({"files": files})).encode())
        failpoints.reach("store:kept")
        self.refuse_taken()
        self._clear()

    def refuse_taken(self) -> None:
        newest = _names(self.address / "claims")[-1:]
        if newest != [self._own]:
            raise PassingError(
                "another run has taken this checkpoint over; this one has written nothing since", str(self.address)
            )

    def _there(self) -> Iterator[Path]:
        for path in sorted(self.folder.rglob("*")):
            first = path.relative_to(self.folder).parts[0]
            if first not in _NOT_KEPT and not path.name.endswith(".tmp") and path.is_file():
                yield path

    def _pack(self, name: str, path: Path, pack_name: str, pack: tempfile.SpooledTemporaryFile[bytes]) -> None:
        try:
            facts = FileFacts.of(path)
            if name in self._files and self._facts.get(name) == facts:
                return
            start, digest = pack.tell(), hashlib.sha256()
            with open(path, "rb") as file:
                while piece := file.read(_PIECE):
                    pack.write(piece)
                    digest.update(piece)
        except FileNotFoundError:  # an old state, cleared away meanwhile
            self._files.pop(name, None)
            return
        self._files[name] = _Packed(pack_name, start, pack.tell() - start, digest.hexdigest())
        self._facts[name] = facts

    def _clear(self) -> None:
        """Removes what no start will need: claims and manifests before ours, packs that no manifest names."""
        for name in _names(self.address / "claims")[:-1]:
            (self.address / "claims" / name).unlink(missing_ok=True)
        manifests = _names(self.address / "manifests")
        for name in manifests[:-KEPT_MANIFESTS]:
            (self.address / "manifests" / name).unlink(missing_ok=True)
        named = {one.pack for one in self._files.values()}
        for name in manifests[-KEPT_MANIFESTS:-1]:
            files = unseal((self.address / "manifests" / name).read_bytes())["files"]
            named |= {facts[0] for facts in files.values()}
        for name in _names(self.address / "packs"):
            if name not in named and name.rpartition("-")[0] <= self._own:
                (self.address / "packs" / name).unlink(missing_ok=True)
        if not self._is_cleared:
            run_objects.clear_before(self.address, self._own, self._objects)
            self._is_cleared = True

    def close(self) -> None:
        super().close()
        os.close(self._held)


def open_checkpoint(place: Path | StorePath, restart: Restart | None = None) -> Checkpoint:
    """The checkpoint in a folder, or in a store."""
    return StoreCheckpoint(place, restart) if isinstance(place, StorePath) else Checkpoint(place, restart)


def _work_folder(address: StorePath) -> Path:
    """Where this machine works on the checkpoint of an address: $WAYEB_CACHE, or the user's cache."""
    given = os.environ.get("WAYEB_CACHE")
    cache = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wayeb"
    return cache / "checkpoints" / hashlib.sha256(str(address).encode()).hexdigest()[:16]


def _names(folder: StorePath) -> list[str]:
    """The files of a folder in a store, in their order."""
    return [path.name for path, _ in folder.below() if not path.name.startswith(".")]


def _put(place: StorePath, content: bytes) -> None:
    place.upload(io.BytesIO(content))
