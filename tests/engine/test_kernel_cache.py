"""Machine code is kept, and loaded, only where no other user can have put it, and only for sources that it is of."""

from __future__ import annotations

import ast
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import wayeb_py
from wayeb_py.kernels import cache as kernel_cache

NOBODY = 65534
ORDER, KEYS, STEPS = "wayeb_py.kernels.order", "wayeb_py.kernels.keys", "wayeb_py.kernels.step_tables"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder such as /tmp is the only place to keep anything."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(kernel_cache, "_homes", lambda: [kernel_cache._Home(shared / "wayeb_py-me")])
    kernel_cache.kernel_source.cache_clear()
    yield shared
    kernel_cache.kernel_source.cache_clear()


def test_a_folder_of_our_own_is_made_for_us_alone(shared: Path) -> None:
    source = kernel_cache.kernel_source(ORDER)
    assert source is not None
    for folder in (shared / "wayeb_py-me", Path(source).parent, Path(source).parent / "__pycache__"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    kernel_cache.kernel_source.cache_clear()
    assert kernel_cache.kernel_source(ORDER) == source


def test_a_link_is_not_followed(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (shared / "wayeb_py-me").symlink_to(tmp_path / "elsewhere")
    assert kernel_cache.kernel_source(ORDER) is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("inner", [None, "__pycache__"])
def test_a_link_further_in_is_not_followed(shared: Path, tmp_path: Path, inner: str | None) -> None:
    source = kernel_cache.kernel_source(ORDER)
    assert source is not None
    kernel_cache.kernel_source.cache_clear()
    replaced = Path(source).parent if inner is None else Path(source).parent / inner
    replaced.rename(tmp_path / "moved")
    replaced.symlink_to(tmp_path / "moved")
    assert kernel_cache.kernel_source(ORDER) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(shared: Path, mode: int) -> None:
    (shared / "wayeb_py-me").mkdir()
    (shared / "wayeb_py-me").chmod(mode)
    assert kernel_cache.kernel_source(ORDER) is None


def test_a_folder_in_whose_place_others_can_put_another_is_not_used(shared: Path) -> None:
    shared.chmod(0o777)  # without the bit that keeps what others made
    assert kernel_cache.kernel_source(ORDER) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
@pytest.mark.parametrize("whose", ["wayeb_py-me", "."])
def test_a_folder_of_another_user_is_not_used(shared: Path, whose: str) -> None:
    (shared / "wayeb_py-me").mkdir(mode=0o700)
    os.chown(shared / whose, NOBODY, NOBODY)
    assert kernel_cache.kernel_source(ORDER) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as somebody else")
def test_a_folder_of_root_is_not_a_users_own(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "wayeb_py-me").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    assert kernel_cache.kernel_source(ORDER) is None


def test_without_a_folder_kernels_are_compiled_and_not_kept(tmp_path: Path) -> None:
    program = (
        "import numpy as np\n"
        "from wayeb_py.kernels import cache as kernel_cache\n"
        "kernel_cache._homes = lambda: []\n"
        "from wayeb_py.kernels.order import mark_repeated\n"
        "from wayeb_py.kernels.ticks import NEVER\n"
        "repeated = np.zeros(2, np.uint8)\n"
        "mark_repeated(np.zeros(2, np.int32), np.array([5, 5]), np.full(1, NEVER), repeated)\n"
        "print(repeated.tolist(), kernel_cache.kernel_source('wayeb_py.kernels.order'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[0, 1] None\n", "")


def test_an_edit_compiles_again_what_may_hold_the_edited_code(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = (ORDER, STEPS, KEYS)  # order imports ticks, step_tables stepping, which imports ticks; keys neither
    before = [kernel_cache.kernel_source(module) for module in modules]
    assert None not in before
    source_of = kernel_cache.source_of
    edited = "wayeb_py.kernels.ticks"
    monkeypatch.setattr(kernel_cache, "source_of", lambda name: source_of(name) + "\n# edited\n" * (name == edited))
    kernel_cache.kernel_source.cache_clear()
    after = [kernel_cache.kernel_source(module) for module in modules]
    assert [was == now for was, now in zip(before, after, strict=True)] == [False, False, True]


def test_every_module_that_declares_kernels_is_compiled_at_installation() -> None:
    """One that is not would be compiled by the first run that needs it: a live stream stood still for ten seconds."""
    package = Path(wayeb_py.__file__).parent
    declaring = {
        ".".join(["wayeb_py", *path.relative_to(package).with_suffix("").parts])
        for path in package.rglob("*.py")
        if "__pycache__" not in path.parts and re.search(r"^@_?kernel\(", path.read_text(), re.MULTILINE)
    }
    assert len(declaring) > 20
    assert declaring <= {*kernel_cache.kernel_modules()}


def test_what_kernels_import_of_us_is_known_to_the_cache() -> None:
    known = {*kernel_cache.kernel_modules(), kernel_cache.__name__}
    for module in kernel_cache.kernel_modules():
        tree = ast.parse(kernel_cache.source_of(module))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        named = {
            *(alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names),
            *(node.module or "." for node in imports if isinstance(node, ast.ImportFrom)),
        }
        ours = {name for name in named if name.startswith(("wayeb_py", "."))}
        assert ours <= known, f"{module} imports what its machine code may hold, and the cache would not notice"
        found = set(kernel_cache._IMPORTED.findall(kernel_cache.source_of(module)))
        assert ours <= found, f"{module} imports in a way that the cache does not see"
