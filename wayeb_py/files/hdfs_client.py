"""A name node's answers become files for Arrow: HDFS by its own protocol, without Java, or by its HTTP interface.

`hdfs://` goes through the package hdfs-native, which speaks the protocol of Hadoop's own client and reads the same
settings (`HADOOP_CONF_DIR`, `HADOOP_USER_NAME`, the tickets of `kinit`). Where the package is missing and Hadoop is
installed, Arrow's client of Hadoop's own library is taken. Both renames here replace their target, in one step.

*Not taken*: hdfs-native's own file system for fsspec, whose errors are of no kind that Arrow knows, and which copies to
a name below the working folder; Hadoop's own library first, since it starts a JVM in each Python worker.
"""

from __future__ import annotations

import getpass
import io
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyarrow import fs

from wayeb_py.errors import DataError

if TYPE_CHECKING:
    from hdfs_native import Client

_CONNECT_S = 10.0
_HADOOP = ("HADOOP_HOME", "ARROW_LIBHDFS_DIR")  # where Arrow looks for Hadoop's own library
# A name node by its address has no other to fail over to; Hadoop's own settings would try for minutes.
_ONE_NAME_NODE = {"dfs.client.failover.max.attempts": "3", "dfs.client.failover.sleep.max.millis": "2000"}
# What hdfs-native says of an exception of the name node: its class, and its text with a trace.
_REMOTE = re.compile(r'RPCError\("(?P<kind>[\w.$]+)", "(?P<text>(?:[^"\\]|\\.)*)')


def open_hdfs(authority: str) -> Any:
    """The file system of `HOST:PORT`, or of a name service that Hadoop's configuration knows."""
    try:
        from hdfs_native import Client  # few installations have it
    except ImportError as error:
        if any(name in os.environ for name in _HADOOP):
            return fs.FileSystem.from_uri(f"hdfs://{authority}/")[0]
        raise DataError(
            "`hdfs://` needs the package hdfs-native, or an installed Hadoop (HADOOP_HOME and CLASSPATH)",
            hint="pip install 'wayeb-py[hdfs]'; or name the web server of the name node, webhdfs://HOST:9870/…",
        ) from error
    place = urlsplit(f"hdfs://{authority}")
    if place.port is not None:
        socket.create_connection((place.hostname or "", place.port), timeout=_CONNECT_S).close()
    with _plainly():
        client = Client(f"hdfs://{authority}", {} if place.port is None else _ONE_NAME_NODE)
    return fs.PyFileSystem(_NativeHandler(client, authority))


def open_web_hdfs(scheme: str, authority: str) -> Any:
    """The file system behind a name node's web server."""
    try:
        from fsspec.implementations.webhdfs import WebHDFS  # few installations have it
    except ImportError as error:
        raise DataError(f"`{scheme}://` needs the package fsspec", hint="pip install 'wayeb-py[webhdfs]'") from error
    host, _, port = authority.partition(":")
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    is_secure = scheme == "swebhdfs"
    client = WebHDFS(
        host, int(port or (9871 if is_secure else 9870)), user=user, use_https=is_secure, use_listings_cache=False
    )
    return fs.PyFileSystem(_WebHandler(client))


class _WebHandler(fs.FSSpecHandler):  # type: ignore[misc]
    def move(self, src: str, dest: str) -> None:
        """Renames, replacing the target; by default HDFS keeps an existing target and reports no error."""
        self.fs._call("RENAME", method="put", path=src, destination=dest, renameoptions="OVERWRITE")


class _NativeHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """What Arrow asks of a file system, as far as a `StorePath` and the readers of formats use it."""

    def __init__(self, client: Client, authority: str) -> None:
        self.client, self.authority = client, authority

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NativeHandler) and self.authority == other.authority

    def __hash__(self) -> int:
        return hash(self.authority)

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._facts(path) for path in paths]

    def _facts(self, path: str) -> fs.FileInfo:
        try:
            with _plainly():
                return _file_info(self.client.get_file_info(path))
        except (FileNotFoundError, NotADirectoryError):
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        try:
            with _plainly():
                found = list(self.client.list_status(selector.base_dir, selector.recursive))
        except (FileNotFoundError, NotADirectoryError):
            if selector.allow_not_found:
                return []
            raise
        return [_file_info(one) for one in found if one.path != selector.base_dir]  # a file lists itself

    def create_dir(self, path: str, recursive: bool) -> None:
        with _plainly():
            self.client.mkdirs(path, create_parent=recursive)

    def delete_file(self, path: str) -> None:
        with _plainly():
            if not self.client.delete(path):
                raise FileNotFoundError(path)

    def delete_dir(self, path: str) -> None:
        with _plainly():
            self.client.delete(path, recursive=True)

    def move(self, src: str, dest: str) -> None:
        with _plainly():
            self.client.rename(src, dest, overwrite=True)

    def open_input_file(self, path: str) -> Any:
        import pyarrow as pa

        with _plainly():
            return pa.PythonFile(_File(self.client.read(path)), mode="r")

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: object) -> Any:
        import pyarrow as pa

        with _plainly():
            return pa.PythonFile(_File(self.client.create(path)), mode="w")

    def _refuse(self, *words: object) -> Any:
        raise NotImplementedError("wayeb asks this of no HDFS")

    delete_dir_contents = delete_root_dir_contents = copy_file = open_append_stream = _refuse


class _File(io.RawIOBase):
    """An open file, with errors that Arrow knows."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        with _plainly():
            return bytes(self.inner.read(-1 if size is None else size))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with _plainly():
            self.inner.seek(offset, whence)
            return int(self.inner.tell())

    def tell(self) -> int:
        return int(self.inner.tell())

    def write(self, data: Any) -> int:
        with _plainly():
            return int(self.inner.write(data))

    def close(self) -> None:
        if not self.closed:
            with _plainly():
                self.inner.close()
            super().close()


def _file_info(status: Any) -> fs.FileInfo:
    kind = fs.FileType.Directory if status.isdir else fs.FileType.File
    return fs.FileInfo(status.path, kind, size=None if status.isdir else status.length)


@contextmanager
def _plainly() -> Iterator[None]:
    """Turns what hdfs-native raises into errors of the operating system, without a trace of the name node's."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise type(error)(str(error).partition("\n")[0]) from error
    except RuntimeError as error:
        found = _REMOTE.search(str(error))
        kind, text = (found["kind"], found["text"]) if found else ("", str(error))
        first = re.split(r"\\n|\n", text)[0].replace('\\"', '"')
        if "is not a directory" in first or kind.endswith("ParentNotDirectoryException"):
            raise NotADirectoryError(first) from error
        if kind.endswith("AccessControlException"):
            raise PermissionError(first) from error
        if "No NameNode hosts found" in first:
            first = "no name node has this name in Hadoop's configuration (HADOOP_CONF_DIR), and no port is given"
        raise OSError(first) from error
