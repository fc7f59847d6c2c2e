"""Addresses become files in a store: `s3://`, `gs://`, `abfs://`, `hdfs://` and `webhdfs://`, through Arrow's clients.

A store has no folders to make, no locks and, except for HDFS, no rename. Reading and writing need little of a path, so
`StorePath` offers that part of `pathlib.Path` and nothing else, and the same code handles both. An object appears when
its upload is complete, whole or not at all; on HDFS a file is renamed into place. `webhdfs://` is HDFS by its HTTP
interface, which needs nothing of Hadoop on this machine; `hdfs://` needs Hadoop's own client.

Credentials come from where each store's own tools look for them: the environment, or the machine's configuration. An
address that holds a password raises an error that does not repeat it.

*Not taken*: fsspec, whose clients are a second set of dependencies with other names for the same settings; mounting a
store as a folder, which promises renames that the store does not have.
"""

from __future__ import annotations

import fnmatch
import getpass
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from wayeb_py.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMES = ("s3", "gs", "abfs", "hdfs", "webhdfs", "swebhdfs")
_HDFS = ("hdfs", "webhdfs", "swebhdfs")
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}  # other names of the same stores
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_CONNECT_S, _REQUEST_S = 10.0, 60.0

_REMEDIES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws; AWS_ENDPOINT_URL and AWS_REGION say where",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`",
    "abfs": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or `az login`",
    "hdfs": "HADOOP_HOME and CLASSPATH (`hadoop classpath --glob`), and `kinit` where there is Kerberos",
    "webhdfs": "HADOOP_USER_NAME; the address has the port of the name node's web server, often 9870",
    "swebhdfs": "HADOOP_USER_NAME; the address has the port of the name node's web server, often 9871",
}


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
            hint=f"take them out, and set {_REMEDIES[_SAME.get(scheme, scheme)]}",
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
            raise DataError(f"`{text}` names no {'host' if scheme in _HDFS else 'bucket'}")
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

    def below(self) -> Iterator[tuple[StorePath, int]]:
        """Every file below this folder with its bytes, in the order of names."""
        from pyarrow.fs import FileSelector  # for start-up time: most runs read no store

        with self.telling("listed"):
            found = self._system().get_file_info(FileSelector(self._inside(), allow_not_found=True, recursive=True))
        begin = len(self._inside().rstrip("/")) + 1
        files = [(PurePosixPath(one.path[begin:]), one.size) for one in found if one.type.name == "File"]
        yield from ((self / name, size) for name, size in sorted(files))

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
            if self.scheme in _HDFS:
                self._put_and_rename(system, source)
            else:
                self._put(system, self._inside(), source)

    def _put_and_rename(self, system: Any, source: IO[bytes]) -> None:
        unfinished = self.with_name(f".{self.name}.{os.urandom(4).hex()}.tmp")
        system.create_dir(self.parent._inside(), recursive=True)
        try:
            self._put(system, unfinished._inside(), source)
            system.move(unfinished._inside(), self._inside())
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def _put(self, system: Any, inside: str, source: IO[bytes]) -> None:
        with system.open_output_stream(inside, compression=None) as sink:  # by default the file's name would decide
            while piece := source.read(8 << 20):
                sink.write(piece)

    def copy_to(self, other: StorePath) -> None:
        """Lets the store copy the file: its bytes do not pass through this machine."""
        with self.telling("copied"):
            self._system().copy_file(self._inside(), other._inside())

    def unlink(self, missing_ok: bool = False) -> None:
        if missing_ok and not self.exists():
            return
        with self.telling("removed"):
            self._system().delete_file(self._inside())

    def _facts(self) -> Any:
        with self.telling("found"):
            return self._system().get_file_info(self._inside())

    def _inside(self) -> str:
        """The name of this file for Arrow's client: it begins with the bucket's name, on HDFS at the root."""
        _, _, authority = self.root.partition("://")
        if self.scheme in _HDFS:
            return str(PurePosixPath("/") / self.key)
        return str(PurePosixPath(authority.partition("@")[0]) / self.key)

    def _system(self) -> Any:
        with self.telling("reached"):
            return _system(self.root, os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))

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
            raise _told(self.path, self.what, error) from error


def _told(path: StorePath, what: str, error: BaseException) -> DataError:
    text = str(error)
    upper = text.upper()
    remedy = _REMEDIES[path.scheme]
    if isinstance(error, FileNotFoundError):
        return DataError("there is no such file", str(path))
    if "NO_SUCH_BUCKET" in upper or "CONTAINERNOTFOUND" in upper:
        return DataError(f"cannot be {what}: there is no bucket `{path.root.partition('://')[2]}`", str(path))
    if any(word in upper for word in ("ACCESS_DENIED", "FORBIDDEN", "INVALID_ACCESS", "SIGNATURE", "UNAUTHENTICATED")):
        return DataError(f"cannot be {what}: the store refuses access", str(path), hint=f"credentials: {remedy}")
    if "LIBJVM" in upper or "LIBHDFS" in upper:
        return DataError(
            f"cannot be {what}: Hadoop's own client is not here", str(path),
            hint=f"set {remedy}; or name the web server of the name node, webhdfs://HOST:9870/…, which needs none",
        )  # fmt: skip
    if "NETWORK_CONNECTION" in upper or "COULD NOT CONNECT" in upper or "RESOLVE" in upper:
        return DataError(f"cannot be {what}: the store does not answer", str(path), hint=f"see its settings: {remedy}")
    first = text.splitlines()[0] if text else type(error).__name__
    return DataError(f"cannot be {what}: {re.sub(r'[(]Request ID: .*[)]', '', first).strip()}", str(path), hint=remedy)


@cache
def _system(root: str, endpoint: str | None) -> Any:
    """Arrow's client of a store; one for each, since it keeps its connections."""
    from pyarrow import fs  # for start-up time: most runs read no store

    scheme, _, authority = root.partition("://")
    if scheme.endswith("webhdfs"):
        return _web_hdfs(scheme, authority)
    if scheme != "s3":
        return fs.FileSystem.from_uri(root + "/")[0]
    settings: dict[str, Any] = {"connect_timeout": _CONNECT_S, "request_timeout": _REQUEST_S}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        settings["endpoint_override"] = endpoint
    if region or endpoint:
        settings["region"] = region or "us-east-1"
    else:
        settings["region"] = fs.resolve_s3_region(authority)
    return fs.S3FileSystem(**settings)


def _web_hdfs(scheme: str, authority: str) -> Any:
    from pyarrow import fs  # for start-up time: most runs read no store

    try:
        from fsspec.implementations.webhdfs import WebHDFS  # few installations have it
    except ImportError as error:
        raise DataError(f"`{scheme}://` needs the package fsspec", hint="pip install 'wayeb-py[webhdfs]'") from error

    class Handler(fs.FSSpecHandler):  # type: ignore[misc]
        def move(self, src: str, dest: str) -> None:
            """Renames, replacing the target; by default HDFS keeps an existing target and reports no error."""
            self.fs._call("RENAME", method="put", path=src, destination=dest, renameoptions="OVERWRITE")

    host, _, port = authority.partition(":")
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    is_secure = scheme == "swebhdfs"
    client = WebHDFS(
        host, int(port or (9871 if is_secure else 9870)), user=user, use_https=is_secure, use_listings_cache=False
    )
    return fs.PyFileSystem(Handler(client))


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


def size_of(path: Location) -> int:
    """The bytes of a file."""
    return path.stat().st_size if isinstance(path, Path) else path.size()


Location = Path | StorePath
