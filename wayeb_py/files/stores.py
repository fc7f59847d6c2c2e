"""Addresses become files in a store: `s3://`, `gs://`, `abfs://`, `hdfs://` and `webhdfs://`, through Arrow's clients.

A store has no folders to make, no locks and, except for HDFS, no rename. Reading and writing need little of a path, so
`StorePath` offers that part of `pathlib.Path` and nothing else, and the same code handles both. An object appears when
its upload is complete, whole or not at all: HDFS renames a file into its place, Azure's store copies it there. In other
stores an upload that fails half way is left as it is: closed, it would put what it has.

Credentials come from where each store's own tools look for them: the environment, or the machine's configuration; see
`store_clients.py`. An address that holds a password raises an error that does not repeat it.

*Not taken*: fsspec, whose clients are a second set of dependencies with other names for the same settings; mounting a
store as a folder, which promises renames that the store does not have.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from wayeb_py.errors import DataError, PassingError, without_secrets
from wayeb_py.files.store_clients import HDFS, REMEDIES, SCHEMES, client_of, keep_for_ever

if TYPE_CHECKING:
    import pyarrow as pa

_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}  # other names of the same stores
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_PIECE = 8 << 20
_SEEN_EARLY = (*HDFS, "abfs")  # these show a file to readers before it is complete
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")  # what they have of an upload until then


def is_store(scheme: str) -> bool:
    """Whether what stands before `://` is a store's."""
    return _SAME.get(scheme.lower(), scheme.lower()) in SCHEMES


def is_address(text: str) -> bool:
    """Whether a text names something by `scheme://`, and not by a path; DataError for a scheme that is no store's."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return False
    scheme = match["scheme"].lower()
    if not is_store(scheme):
        shown = "file://…" if scheme == "file" else f"{scheme}://…"
        raise DataError(
            f"`{shown}` is an address of a kind that is not read or written",
            hint="name the path without file://" if scheme == "file" else f"known are {', '.join(SCHEMES)}, and paths",
        )
    authority = match["rest"].partition("/")[0]
    if scheme.startswith("abfs"):
        authority = authority.partition("@")[2]
    if "@" in authority or ":" in authority.rpartition("@")[0]:
        raise DataError(
            f"an address with credentials in it is not used, since addresses are written to logs: {scheme}://…",
            hint=f"take them out, and set {REMEDIES[_SAME.get(scheme, scheme)]}",
        )
    return True


def located(text: str | os.PathLike[str]) -> Location:
    """Where a text leads: a path of this machine, or one in a store."""
    name = os.fspath(text)
    return StorePath.parse(name) if is_address(name) else Path(name)


def absolute(text: str) -> str:
    """The path from the root, so that it means the same in every working folder; an address stays as it is."""
    return text if is_address(text) else os.path.abspath(text)


def beside(pattern_file: str, path: str) -> Location:
    """Where a path leads that a pattern file names: it starts from that file's folder, unless it is an address."""
    return StorePath.parse(path) if is_address(path) else Path(pattern_file).parent / path


def is_outside(pattern_file: str, path: Location) -> bool:
    """Whether a file that exists lies outside the folder of the pattern file, as everything in a store does."""
    if isinstance(path, StorePath):
        return True
    return path.exists() and not path.resolve().is_relative_to(Path(pattern_file).parent.resolve())


@dataclass(frozen=True, slots=True)
class StorePath:
    """A file or a folder in a store, as far as it is like a `Path`; `str` gives the address."""

    root: str  # scheme, and the bucket or the host, without a slash at the end
    key: PurePosixPath

    @classmethod
    def parse(cls, text: str) -> StorePath:
        scheme, _, rest = text.partition("://")
        authority, _, key = rest.partition("/")
        if not authority:
            raise DataError(f"`{text}` names no {'host' if scheme in HDFS else 'bucket'}")
        return cls(f"{_SAME.get(scheme.lower(), scheme.lower())}://{authority}", PurePosixPath(key.strip("/")))

    def __str__(self) -> str:
        return self.root if self.key == PurePosixPath() else f"{self.root}/{self.key}"

    def __truediv__(self, name: str | PurePosixPath) -> StorePath:
        return StorePath(self.root, self.key / name)

    @property
    def scheme(self) -> str:
        return self.root.partition("://")[0]

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def stem(self) -> str:
        return self.key.stem

    @property
    def suffix(self) -> str:
        return self.key.suffix

    @property
    def parent(self) -> StorePath:
        return StorePath(self.root, self.key.parent)

    def with_name(self, name: str) -> StorePath:
        return StorePath(self.root, self.key.with_name(name))

    def is_below(self, folder: StorePath) -> bool:
        return self.root == folder.root and self.key.is_relative_to(folder.key)

    def exists(self) -> bool:
        return bool(self._facts().type.name != "NotFound")

    def is_file(self) -> bool:
        return bool(self._facts().type.name == "File")

    def is_dir(self) -> bool:
        return bool(self._facts().type.name == "Directory")

    def size(self) -> int:
        """Bytes of the file; DataError where there is none."""
        facts = self._facts()
        if facts.type.name != "File":
            raise DataError("there is no such file", str(self)) from FileNotFoundError(str(self))
        return int(facts.size)

    def state(self) -> tuple[int, int]:
        """The bytes of the file and when it was written, by which another of its name is known."""
        facts = self._facts()
        return int(facts.size or 0), int(facts.mtime_ns or 0)

    def written_ns(self) -> int:
        """When the file was written, in nanoseconds since 1970, by the store's clock; 0 where it does not say."""
        return int(self._facts().mtime_ns or 0)

    def below(self) -> Iterator[tuple[StorePath, int]]:
        """Every file below this folder with its bytes, in the order of names."""
        from pyarrow.fs import FileSelector  # for start-up time: most runs read no store

        with self.telling("listed"):
            found = self._system().get_file_info(FileSelector(self._inside(), allow_not_found=True, recursive=True))
        begin = len(self._inside().rstrip("/")) + 1
        files = [(PurePosixPath(one.path[begin:]), one.size) for one in found if one.type.name == "File"]
        yield from ((self / name, size) for name, size in sorted(files) if not self._is_unfinished(name))

    def matching(self) -> Iterator[tuple[StorePath, StorePath, int]]:
        """(what matches, file, bytes) for every match of this address as a glob: a file, or each file below a folder.

        `**` is any depth, as in a path, and leads to files alone.
        """
        fixed = PurePosixPath(*_before_magic(self.key.parts))
        wanted = self.key.relative_to(fixed).parts
        for path, size in StorePath(self.root, fixed).below():
            parts = path.key.relative_to(fixed).parts
            least = len(parts) if "**" in wanted else 1
            for n_parts in range(len(parts), least - 1, -1):
                if _matches(parts[:n_parts], wanted):
                    yield StorePath(self.root, fixed.joinpath(*parts[:n_parts])), path, size
                    break

    def open_input(self) -> pa.NativeFile:
        """The file's bytes, readable from any offset."""
        with self.telling("read"):
            return self._system().open_input_file(self._inside())

    def read_bytes(self) -> bytes:
        with self.telling("read"), self._system().open_input_file(self._inside()) as file:
            return bytes(file.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def open(self, encoding: str = "utf-8", newline: str | None = None) -> IO[str]:
        """The file's text."""
        return io.StringIO(self.read_bytes().decode(encoding), newline=newline)

    def upload(self, source: IO[bytes]) -> None:
        """Replaces the file by what the source holds from its beginning, whole or not at all."""
        system = self._system()
        source.seek(0)
        with self.telling("written"):
            if self.scheme in _SEEN_EARLY:
                self._put_and_move(system, source)
            else:
                self._put(system, source)

    def _put_and_move(self, system: Any, source: IO[bytes]) -> None:
        unfinished = self.with_name(f".{self.name}.{os.urandom(4).hex()}.tmp")
        if self.scheme in HDFS:
            system.create_dir(self.parent._inside(), recursive=True)
        else:  # below a folder, Arrow's client takes leases to remove a file, and may wait for seconds
            unfinished = StorePath(self.root, PurePosixPath(unfinished.name))
        try:
            unfinished._put(system, source)
            unfinished._move(system, self)
        except BaseException:
            with contextlib.suppress(DataError):  # the first error says more
                unfinished.unlink(missing_ok=True)
            raise

    def _put(self, system: Any, source: IO[bytes]) -> None:
        sink = system.open_output_stream(self._inside(), compression=None)  # by default the file's name would decide
        try:
            while piece := source.read(_PIECE):
                sink.write(piece)
        except BaseException:
            if self.scheme in _SEEN_EARLY:
                with contextlib.suppress(Exception):  # the first error says more
                    sink.close()
            else:
                keep_for_ever(sink)  # closed or destroyed, it would put what it has as if that were all
            raise
        sink.close()

    def move_to(self, other: StorePath) -> None:
        """Gives the file another place in the store, without its bytes passing through this machine: HDFS renames it,
        other stores copy it and then remove it."""
        system = self._system()
        with self.telling("moved"):
            if self.scheme in HDFS:
                system.create_dir(other.parent._inside(), recursive=True)
            self._move(system, other)

    def _move(self, system: Any, other: StorePath) -> None:
        if self.scheme in HDFS:
            system.move(self._inside(), other._inside())
        else:
            system.copy_file(self._inside(), other._inside())
            system.delete_file(self._inside())

    def unlink(self, missing_ok: bool = False) -> None:
        if missing_ok and not self.exists():
            return
        with self.telling("removed"):
            self._system().delete_file(self._inside())

    def remove_folder(self) -> None:
        """Removes everything below; HDFS alone has a folder that would be left."""
        for path, _ in list(self.below()):
            path.unlink(missing_ok=True)
        if self.scheme in HDFS and self.is_dir():
            with self.telling("removed"):
                self._system().delete_dir(self._inside())

    def _facts(self) -> Any:
        with self.telling("found"):
            return self._system().get_file_info(self._inside())

    def _inside(self) -> str:
        """The name of this file for Arrow's client: it begins with the bucket's name, on HDFS at the root."""
        _, _, authority = self.root.partition("://")
        if self.scheme in HDFS:
            return str(PurePosixPath("/") / self.key)
        return str(PurePosixPath(authority.partition("@")[0]) / self.key)

    def _is_unfinished(self, name: PurePosixPath) -> bool:
        """Whether a file below this one is an upload that is not complete, or never will be: elsewhere none is seen."""
        return self.scheme in _SEEN_EARLY and _UNFINISHED.fullmatch(name.name) is not None

    def _system(self) -> Any:
        with self.telling("reached"):
            return client_of(self.root)

    def telling(self, what: str) -> _Telling:
        """Turns what a store's client raises into an error of one line, with a remedy."""
        return _Telling(self, what)


MANIFEST = "_wayeb.json"  # the file in a folder of parts that names them


def manifest_parts(folder: StorePath) -> set[str] | None:
    """The parts of an output of ours, by their paths below it; None where there is no manifest."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return None
    try:
        return set(json.loads(manifest.read_bytes())["parts"])
    except (ValueError, LookupError, TypeError):
        raise DataError("this manifest is not one of wayeb's", str(manifest), hint="remove it, or the folder") from None


def is_missing(error: DataError) -> bool:
    """Whether the error says that there is no such file in a store."""
    return isinstance(error.__cause__, FileNotFoundError)


@dataclass(frozen=True, slots=True)
class _Telling:
    path: StorePath
    what: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | ValueError | ImportError) and not isinstance(error, DataError):
            raise store_fault(self.path, self.what, error) from error


_NO_ANSWER = (
    "NETWORK_CONNECTION", "COULD NOT CONNECT", "RESOLVE", "CONNECTION REFUSED", "NAME OR SERVICE NOT KNOWN",
    "TIMEOUT", "TIMED OUT", "CONNECTION RESET", "CURLCODE",
)  # fmt: skip
# A fault of the store's own, or too many requests at once, in the words of each client.
_BUSY = re.compile(
    r"SLOW_DOWN|THROTTL|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|(HTTP STATUS|STATUS CODE:?|AZURE ERROR: \S*) (5\d\d|429)"
    r"|STATUS\((UNAVAILABLE|INTERNAL|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED)"
)
_AGAIN = "give the same command again: a stream goes on where it was"


def store_fault(path: StorePath, what: str, error: BaseException) -> DataError:
    """What a store's client has raised, as an error with a remedy; PassingError where the same may go well later."""
    text = without_secrets(str(error))
    upper = text.upper()
    remedy = REMEDIES[path.scheme]
    is_missing = isinstance(error, FileNotFoundError) or "NO_SUCH_KEY" in upper
    is_bucket = is_missing and what == "written" and path.scheme not in HDFS  # a put makes everything else
    if is_bucket or "NO_SUCH_BUCKET" in upper or "CONTAINERNOTFOUND" in upper:
        return DataError(f"cannot be {what}: there is no bucket `{path.root.partition('://')[2]}`", str(path))
    if is_missing:
        return DataError("there is no such file", str(path))
    if any(word in upper for word in ("ACCESS_DENIED", "FORBIDDEN", "INVALID_ACCESS", "SIGNATURE", "UNAUTHENTICATED")):
        return DataError(f"cannot be {what}: the store refuses access", str(path), hint=f"credentials: {remedy}")
    if "LIBJVM" in upper or "LIBHDFS" in upper:
        return DataError(
            f"cannot be {what}: the library of the installed Hadoop is not found", str(path),
            hint="pip install 'wayeb-py[hdfs]', which needs no Hadoop; or set HADOOP_HOME, and CLASSPATH as "
            "`hadoop classpath --glob` prints it",
        )  # fmt: skip
    if isinstance(error, ConnectionError | TimeoutError) or any(word in upper for word in _NO_ANSWER):
        hint = f"see its settings: {remedy}; where they are right, {_AGAIN}"
        return PassingError(f"cannot be {what}: the store does not answer", str(path), hint=hint)
    first = text.splitlines()[0] if text else type(error).__name__
    shown = re.sub(r"[(]Request ID: .*[)]", "", first).strip()
    if _BUSY.search(upper):
        return PassingError(f"cannot be {what}: the store fails at present: {shown}", str(path), hint=_AGAIN)
    return DataError(f"cannot be {what}: {shown}", str(path), hint=remedy)


def _before_magic(parts: tuple[str, ...]) -> tuple[str, ...]:
    for place, part in enumerate(parts):
        if has_magic(part):
            return parts[:place]
    return parts


def has_magic(text: str) -> bool:
    """Whether a text is a glob."""
    return any(letter in text for letter in "*?[")


def _matches(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return _matches(parts, wanted[1:]) or (bool(parts) and _matches(parts[1:], wanted))
    if not parts:
        return False
    # As in a shell, a glob matches a name that begins with a dot only if it begins with one itself.
    hidden = parts[0].startswith(".") and not wanted[0].startswith(".")
    return not hidden and fnmatch.fnmatchcase(parts[0], wanted[0]) and _matches(parts[1:], wanted[1:])


def open_input(path: str) -> pa.NativeFile:
    """A file's bytes, from a disk or a store."""
    if is_address(path):
        return StorePath.parse(path).open_input()
    import pyarrow as pa  # for start-up time

    return pa.OSFile(path)


def written_ns(path: Location) -> int:
    """When a file was written, in nanoseconds since 1970."""
    return path.stat().st_mtime_ns if isinstance(path, Path) else path.written_ns()


@contextlib.contextmanager
def unreplaced(path: str) -> Iterator[None]:
    """Raises PassingError where an object of a store is replaced while the block reads it, in several requests: it has
    got parts of both. An open file of a disk stays the same file. Stores give the time of a put in whole seconds."""
    if not is_address(path):
        yield
        return
    place = StorePath.parse(path)
    before = place.state()
    yield
    if place.state() != before:
        raise replaced(path)


def replaced(path: str) -> PassingError:
    """The error for an object that was replaced while it was read."""
    return PassingError(
        "the object was replaced by another while it was read", path,
        hint="give the same command again, once nothing is written there",
    )  # fmt: skip


def telling_store(path: str) -> contextlib.AbstractContextManager[None]:
    """As `StorePath.telling` of a file that is read, where the path is in a store."""
    return StorePath.parse(path).telling("read") if is_address(path) else contextlib.nullcontext()


def size_of(path: Location) -> int:
    """The bytes of a file."""
    return path.stat().st_size if isinstance(path, Path) else path.size()


Location = Path | StorePath
