"""Where the kernels' machine code is kept: beside their sources, or in a folder of our own if that cannot be.

numba keeps what it compiled beside a source file that it can look at. A package that was shipped as a zip has none, and
one that belongs to somebody else has one but no room beside it. Then the sources are written once to a folder that is
named by their content, in the user's cache or, where there is no home, below the temporary folder; every process and
every job on the machine finds the same one, wherever Spark has put the zip this time. A zip may bring machine code
along (`wayeb ship`), which numba takes if it is for this processor, this version and these sources.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import tempfile
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
def newest_source() -> str:
    """The file of kernels that was changed last.

    A kernel holds code of other files, and numba asks only the file that it believes a kernel to be in whether the
    machine code it keeps is still good. So every kernel is said to be in the newest.
    """
    folder = Path(__file__).parent
    found = [*folder.glob("*kernels.py"), *folder.glob("spatial/*kernels.py")]
    if not found:
        return own_source()
    newest = max(found, key=lambda file: (file.stat().st_mtime_ns, file.name))
    told = os.environ.get("NUMBA_CACHE_DIR")
    return str(newest) if told or _is_writable(newest.parent / "__pycache__") else own_source()


@cache
def own_source() -> str:
    """A file with the sources of all kernels, in a folder of our own."""
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
                _unpack_machine_code(path.parent / "__pycache__")
                _write_whole(path, text.encode())
            return str(path)
    raise OSError(f"there is no folder to keep compiled kernels in; tried {', '.join(map(str, _roots()))}")


def _unpack_machine_code(folder: Path) -> None:
    brought = files("wayeb_py").joinpath(MACHINE_CODE)
    if brought.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        for code in brought.iterdir():
            _write_whole(folder / code.name, code.read_bytes())


def _write_whole(path: Path, data: bytes) -> None:
    """A file that other workers, who do the same at the same time, never see by half."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
        unfinished.write(data)
    os.utime(unfinished.name, (0, 0))  # older versions of numba go by the time
    os.replace(unfinished.name, path)


def _roots() -> list[Path]:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [Path(home) / "wayeb_py", Path(tempfile.gettempdir()) / f"wayeb_py-{os.getuid()}"]


def _is_writable(folder: Path) -> bool:
    return os.access(folder if folder.exists() else folder.parent, os.W_OK | os.X_OK)


def _is_ours_to_write(folder: Path) -> bool:
    """Whether we can write there and nobody else but root has: machine code is loaded from it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder.stat().st_uid in (os.getuid(), 0) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False
