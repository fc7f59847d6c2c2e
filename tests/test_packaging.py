"""The installation: exactly the folders that hold code, under one name, and nothing generic."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")  # which builds the package once
ROOT = Path(__file__).parent.parent
FOLDER_OF = {"wayeb_py": "wayeb_py", "wayeb_py.dsl": "dsl", "wayeb_py.parallel": "parallel"}


def packages_on_disk() -> set[str]:
    """Every folder with an __init__.py below the three roots, by its import name."""
    found = set()
    for name, folder in FOLDER_OF.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            inner = init.parent.relative_to(ROOT / folder).parts
            if name != "wayeb_py" or not inner or inner[0] not in ("dsl", "parallel"):
                found.add(".".join([name, *inner]))
    return found


def modules_on_disk() -> set[str]:
    """Every source file as the path that it has in a wheel."""
    return {
        "/".join([*name.split("."), path.relative_to(ROOT / FOLDER_OF[top]).name])
        for name in packages_on_disk()
        for top in [max((top for top in FOLDER_OF if f"{name}.".startswith(f"{top}.")), key=len)]
        for path in ROOT.joinpath(FOLDER_OF[top], *name[len(top) :].strip(".").split(".")).glob("*.py")
    }


def test_the_package_list_names_every_folder() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert set(configuration["packages"]) == packages_on_disk()


@pytest.mark.parametrize("name", ["dsl", "parallel"])
def test_a_layer_is_reached_through_a_relative_link(name: str) -> None:
    link = ROOT / "wayeb_py" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy of the sources by setuptools itself, without isolation and without a network."""
    copy, out = tmp_path_factory.mktemp("sources") / "copy", tmp_path_factory.mktemp("wheel")
    for folder in ("wayeb_py", "dsl", "parallel"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    program = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    built = subprocess.run([sys.executable, "-c", program], cwd=copy, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_a_wheel_puts_one_name_into_site_packages(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"wayeb_py"}


def test_a_wheel_holds_every_module_once(wheel: zipfile.ZipFile) -> None:
    held = [name for name in wheel.namelist() if name.endswith(".py")]
    assert sorted(held) == sorted(modules_on_disk())


def test_a_wheel_holds_what_the_map_page_is_made_of(wheel: zipfile.ZipFile) -> None:
    page = ROOT / "wayeb_py" / "view" / "page"
    assert {f"wayeb_py/view/page/{path.name}" for path in page.iterdir()} <= set(wheel.namelist())
    assert {"wayeb_py/view/world.npz", "wayeb_py/view/world.txt"} <= set(wheel.namelist())  # the land, its licence


def test_a_wheel_installs_the_command_and_its_types(wheel: zipfile.ZipFile) -> None:
    entry_points = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "wayeb = wayeb_py.cli:main" in wheel.read(entry_points).decode()
    assert "wayeb_py/py.typed" in wheel.namelist()


def test_the_language_is_imported_from_a_wheel_alone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = "import wayeb_py.dsl, wayeb_py.errors; print(wayeb_py.dsl.__file__)"
    # -I keeps the checkout out of the path; what pyparsing needs is still found.
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"
    ran = subprocess.run([sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()) == tmp_path / "wayeb_py" / "dsl" / "__init__.py"
