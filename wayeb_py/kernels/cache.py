"""Caches the kernels' machine code: a machine compiles once, or never where the package ships the code.

numba keeps what it compiled beside a source file that it can look at, as long as that file's content stays. But a
kernel holds code of other files; and a package that was shipped as a zip has no files at all. So for each module of
kernels we join its source and those of all modules of kernels that it imports, directly or through others, into one
file that is named by its content, and set `co_filename` of the module's kernels to it. An edit thus compiles again what
may hold the edited code, and nothing else. The files are in one folder: in the package's `__pycache__`, or in the
user's cache where that is not ours to write, or below the temporary folder where there is no home. Machine code that is
found with the package is copied there: from a zip (`wayeb ship`), or from its installation. numba takes it if it is for
this processor, this version, these sources. *Not taken*: one file of all sources, after whose every edit each kernel is
compiled again, for minutes.

We run code from this folder, so we trust it only if it is a real folder and no link, if we own it, and if no other user
can write to it or to a parent. Where there is no such folder nothing is kept, and every process compiles what it needs.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import wayeb_py
from wayeb_py.files.output.whole_file import whole_file

MACHINE_CODE = "_machine_code"  # the folder of machine code in a zip
FOLDER = "kernels"
_IMPORTED = re.compile(r"^(?:from|import) (wayeb_py[\w.]*)", re.MULTILINE)


def kernel_modules() -> list[str]:
    """The names of all modules with kernels, also in a zip."""
    within = (("kernels", "few"), *((stage, "kernels") for stage in ("files", "spatial", "rules", "matches")))
    ours = [name for folder in (("kernels",), *within) for name in _modules_of(*folder)]
    others = [*_modules_of("pairs"), *_modules_of("forecast")]
    return sorted({*ours, *(name for name in others if name.endswith("kernels"))} - {__name__})


def _modules_of(*folders: str) -> list[str]:
    """Modules of a folder of the package, by their names: none of them is imported."""
    paths = [os.path.join(path, *folders) for path in wayeb_py.__path__]
    modules = [module.name for module in pkgutil.iter_modules(paths) if not module.ispkg]
    return [".".join(["wayeb_py", *folders, name]) for name in modules]


@cache
def kernel_source(module: str) -> str | None:
    """The path of the file that stands for a module of kernels; machine code is kept in `__pycache__` beside it.

    None where there is no folder that is ours alone.
    """
    text = "\n".join(source_of(name) for name in sorted(_modules_within(module)))
    name = f"{module}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    for home in _homes():
        folder = home.path / FOLDER
        if home.is_ours() and _is_ours(folder, home.mode) and _is_ours(folder / "__pycache__", home.mode):
            path = folder / f"{name}.py"
            if not path.exists():
                _bring_machine_code(name, folder / "__pycache__")
                _write_whole(path, text.encode())
            return str(path)
    return None


def kept_machine_code(module: str) -> list[Path]:
    """The files with the machine code of a module's kernels, as its source is now."""
    source = kernel_source(module)
    if source is None:
        return []
    kept = Path(source).parent / "__pycache__"
    return sorted(path for path in kept.glob(f"{Path(source).stem}.*") if path.suffix in (".nbi", ".nbc"))


def _modules_within(module: str) -> set[str]:
    """The modules whose code a module's kernels may hold: itself, what it imports of kernels, and what that imports."""
    within: set[str] = set()
    unread = [module]
    while unread:
        name = unread.pop()
        if name not in within:
            within.add(name)
            unread += _known_modules().intersection(_IMPORTED.findall(source_of(name)))
    return within


@cache
def _known_modules() -> frozenset[str]:
    return frozenset(kernel_modules())


@cache
def source_of(module: str) -> str:
    """The text of a module, also in a zip."""
    package, _, name = module.rpartition(".")
    return files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Home:
    """A folder that kernels may be kept below. A user who can write a package's parents can write its code
    as well, so that these are not checked; and what is installed there is for everyone to read."""

    path: Path
    is_package: bool = False

    @property
    def mode(self) -> int:
        return 0o755 if self.is_package else 0o700

    def is_ours(self) -> bool:
        if self.is_package:
            return self.path.parent.is_dir() and self.path.parent.stat().st_uid == os.getuid()
        return _is_ours(self.path, self.mode) and _is_reached_safely(self.path)


def _homes() -> list[_Home]:
    package = Path(__file__).parent.parent
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    others = [_Home(Path(home) / "wayeb_py"), _Home(Path(tempfile.gettempdir()) / f"wayeb_py-{os.getuid()}")]
    return [_Home(package / "__pycache__", is_package=True), *others] if package.is_dir() else others


def _is_ours(folder: Path, mode: int) -> bool:
    """Whether this is a folder, made now or before, that is our own and that no other user can write."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.getuid()
        and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and os.access(folder, os.W_OK | os.X_OK)
    )


def _is_reached_safely(folder: Path) -> bool:
    """Whether only root and ourselves can put another folder in its place, here or further up."""
    for parent in {*folder.absolute().parents, *folder.resolve().parents}:
        found = parent.lstat()
        if found.st_uid not in (os.getuid(), 0):
            return False
        others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
        if others_write and not stat.S_ISLNK(found.st_mode):  # a link has no mode of its own
            return False
    return True


def _bring_machine_code(name: str, folder: Path) -> None:
    for file_name, code in _machine_code_of_package(name):
        _write_whole(folder / file_name, code)


def _machine_code_of_package(name: str) -> Iterator[tuple[str, bytes]]:
    package = files("wayeb_py")
    for brought in (package.joinpath(MACHINE_CODE), package.joinpath("__pycache__", FOLDER, "__pycache__")):
        if brought.is_dir():
            ours = (code for code in brought.iterdir() if code.name.startswith(f"{name}."))
            yield from ((code.name, code.read_bytes()) for code in ours)


def _write_whole(path: Path, data: bytes) -> None:
    """Writes a file that other workers, which do the same at the same time, never see half written."""
    with whole_file(path, durable=False) as whole:
        whole.write(data)
        file = whole.open()
        file.flush()
        os.utime(file.fileno(), (0, 0))  # older versions of numba compare times
