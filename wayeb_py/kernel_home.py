"""Where the kernels' machine code is kept, so that it is compiled once a machine, and not even that if it was shipped.

numba keeps what it compiled beside a source file that it can look at, as long as that file's content stays. But a
kernel holds code of other files; and a package that was shipped as a zip has no files at all. So the sources of all
kernels are put together into one file, in a folder that is named by their content, and every kernel is said to be in
it. The folder is in the package's `__pycache__`, or in the user's cache where that is not ours to write, or below the
temporary folder where there is no home. Machine code that is found with the package comes along: from a zip
(`wayeb ship`), or from whoever installed it. numba takes it if it is for this processor, this version, these sources.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

MACHINE_CODE = "_machine_code"  # the folder of it in a zip
PACKAGES = ("wayeb_py", "wayeb_py.spatial")  # that have kernels


def kernel_modules() -> list[str]:
    """The names of all modules with kernels; in a zip as well."""
    import wayeb_py
    from wayeb_py import spatial

    found = []
    for package, paths in zip(PACKAGES, (wayeb_py.__path__, spatial.__path__), strict=True):
        found += [f"{package}.{module.name}" for module in pkgutil.iter_modules(paths)]
    return sorted(name for name in found if name.endswith("kernels"))


@cache
def kernel_source() -> str:
    """The path of the one file that has the sources of all kernels; machine code is kept in `__pycache__` beside it."""
    texts = []
    for name in kernel_modules():
        package, _, module = name.rpartition(".")
        texts.append(files(package).joinpath(f"{module}.py").read_text(encoding="utf-8"))
    text = "\n".join(texts)
    name = f"kernels-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    for root in _roots():
        path = root / name / "kernels.py"
        if _is_ours_to_write(path.parent):
            if not path.exists():
                _bring_machine_code(name, path.parent / "__pycache__")
                _write_whole(path, text.encode())
            return str(path)
    raise OSError(f"there is no folder to keep compiled kernels in; tried {', '.join(map(str, _roots()))}")


def _roots() -> list[Path]:
    package = Path(__file__).parent
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    others = [Path(home) / "wayeb_py", Path(tempfile.gettempdir()) / f"wayeb_py-{os.getuid()}"]
    return [package / "__pycache__", *others] if package.is_dir() else others


def _is_ours_to_write(folder: Path) -> bool:
    """Whether we can write there and nobody else but root has: machine code is loaded from it."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return folder.stat().st_uid in (os.getuid(), 0) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _bring_machine_code(name: str, folder: Path) -> None:
    for file_name, code in _machine_code_of_package(name):
        folder.mkdir(mode=0o755, exist_ok=True)
        _write_whole(folder / file_name, code)


def _machine_code_of_package(name: str) -> Iterator[tuple[str, bytes]]:
    package = files("wayeb_py")
    for brought in (package.joinpath(MACHINE_CODE), package.joinpath("__pycache__", name, "__pycache__")):
        if brought.is_dir():
            yield from ((code.name, code.read_bytes()) for code in brought.iterdir())


def _write_whole(path: Path, data: bytes) -> None:
    """A file that other workers, who do the same at the same time, never see by half."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
        unfinished.write(data)
    os.utime(unfinished.name, (0, 0))  # older versions of numba go by the time
    os.replace(unfinished.name, path)
