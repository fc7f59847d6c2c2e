"""The package becomes one zip that Spark hands to its executors: `spark-submit --py-files`, `addPyFile`.

Spark puts such a zip on the workers' path as it is; a wheel is accepted as well, and then ignored. It holds the sources
and their byte code: without that every worker would compile ten thousand lines again. Byte code of another Python is
passed over, and the sources are used. The same sources give the same bytes. What the package depends on (numpy, numba,
pyarrow, …) is machine code and must be on the executors already; `docs/spark.md` says how.
"""

from __future__ import annotations

import importlib.util
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import wayeb_py
from wayeb_py.errors import DataError

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip can tell
_UNCHECKED = (1).to_bytes(4, "little")  # byte code that is taken without asking its source


def write_zip(out: str | os.PathLike[str]) -> Path:
    """Writes the package as a zip; the path of it. Whole or not at all."""
    path = Path(out)
    if path.suffix != ".zip":
        raise DataError("Spark takes packages as .zip alone", str(path), hint="name it wayeb_py.zip")
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in _members():
                archive.writestr(zipfile.ZipInfo(name, _EARLIEST), data, zipfile.ZIP_DEFLATED)
        os.replace(unfinished, path)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _members() -> Iterator[tuple[str, bytes]]:
    root = Path(wayeb_py.__file__).parent
    if not root.is_dir():
        raise DataError("this wayeb_py runs from a zip itself", hint=f"ship that one: {root.parent}")
    for folder, folders, names in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(folder) / name
            member = "/".join(("wayeb_py", *path.relative_to(root).parts))
            data = path.read_bytes()
            yield member, data
            if path.suffix == ".py":
                yield f"{member}c", _byte_code(data, member)


def _byte_code(source: bytes, member: str) -> bytes:
    import marshal

    loader: Any = importlib.util
    code = compile(source, member, "exec", dont_inherit=True)
    header = loader.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    return bytes(header) + marshal.dumps(code)
