"""The package becomes one zip that Spark passes to its executors: `spark-submit --py-files`, `addPyFile`.

Spark puts such a zip on the workers' path as it is; a wheel is accepted as well, and then ignored. It holds the sources
and their byte code: without that every worker would compile ten thousand lines again. Byte code of another Python is
skipped, and the sources are used. The same sources give the same bytes. What the package depends on (numpy, numba,
pyarrow, …) must be on the executors already; `docs/spark.md` says how.

The kernels go along as machine code too: executors with the same processor and numba load it, others compile their
own, some twenty seconds once for each machine (`kernels.cache`).
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import wayeb_py
from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import telling_faults, whole_file
from wayeb_py.kernels.cache import MACHINE_CODE, kept_machine_code, kernel_modules
from wayeb_py.run.startup import compile_kernels

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can express
_UNCHECKED = (1).to_bytes(4, "little")  # byte code that Python takes without checking its source


def write_zip(out: str | os.PathLike[str], machine_code: bool = True) -> Path:
    """Writes the package as a zip, whole or not at all, and returns its path."""
    path = Path(out)
    if path.suffix != ".zip":
        raise DataError("Spark takes packages as .zip alone", str(path), hint="name it wayeb_py.zip")
    with (
        telling_faults(path),
        whole_file(path) as whole,
        zipfile.ZipFile(whole.open(), "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, data in (*_members(), *(_machine_code() if machine_code else ())):
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST), data, zipfile.ZIP_DEFLATED)
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


def _machine_code() -> Iterator[tuple[str, bytes]]:
    """numba's cache of the kernels; compiled here, if it was missing."""
    compile_kernels()
    for module in kernel_modules():  # where nothing is kept, the process that runs the zip compiles
        for path in kept_machine_code(module):
            yield f"wayeb_py/{MACHINE_CODE}/{path.name}", path.read_bytes()


def _byte_code(source: bytes, member: str) -> bytes:
    code = compile(source, member, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code)
