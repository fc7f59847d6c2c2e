"""Who may import whom: errors <- dsl <- wayeb_py <- parallel, and what must not be loaded until it is needed.

Imports are read from the source, not from a running process, so that one inside a function counts as well.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_FILES, MOST_LINES = 15, 500
ONE_MORE = {"wayeb_py/kernels", "wayeb_py/engine/rules"}  # each is one step of the way, and no part of it another
STANDARD = set(sys.stdlib_module_names)
# Links inside wayeb_py/, whose files are read where they really are; and what benchmarks download.
NOT_OF_A_LAYER = {"wayeb_py": {"dsl", "parallel"}, "benchmarks": {"data"}}

pytestmark = pytest.mark.xdist_group("layers")  # which parse each file once


@cache
def files_of(layer: str) -> list[Path]:
    left_out = NOT_OF_A_LAYER.get(layer, set())
    found = [path for path in sorted((ROOT / layer).rglob("*.py")) if "__pycache__" not in path.parts]
    return [path for path in found if path.relative_to(ROOT / layer).parts[0] not in left_out]


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a file."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports_of(path: Path) -> list[tuple[int, str]]:
    """Line and full name of everything a file imports; a relative import is spelt out."""
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    package = [folder] if folder == "wayeb_py" else ["wayeb_py", folder]
    package += rest[:-1]
    found: list[tuple[int, str]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from wayeb_py import dsl` imports a module: the name counts as much as where it is from.
            found += ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
    return found


def is_below(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def strangers(layer: str, allowed: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files_of(layer)
        for line, name in imports_of(path)
        if name.split(".")[0] not in STANDARD and not is_below(name, *allowed)
    ]


def test_every_layer_has_files_to_look_at() -> None:
    assert all(files_of(layer) for layer in ("dsl", "wayeb_py", "parallel"))


@pytest.mark.parametrize("layer", ["dsl", "wayeb_py", "parallel", "benchmarks", "tools"])
def test_a_folder_is_small_enough_to_be_read_at_a_glance_and_so_is_a_file(layer: str) -> None:
    files = [path.relative_to(ROOT) for path in files_of(layer)]
    in_folder = Counter(str(path.parent) for path in files if path.name not in ("__init__.py", "__main__.py"))
    assert {folder: n for folder, n in in_folder.items() if n > MOST_FILES + (folder in ONE_MORE)} == {}
    lines = {str(path): len((ROOT / path).read_text().splitlines()) for path in files}
    assert {path: n for path, n in lines.items() if n > MOST_LINES} == {}


def test_the_language_needs_only_pyparsing_and_the_errors() -> None:
    assert strangers("dsl", ("pyparsing", "wayeb_py.errors", "wayeb_py.dsl")) == []


SYNTAX = "wayeb_py.dsl.syntax"


def test_the_parser_does_not_know_the_printer() -> None:
    """Nor anything that prints: what the parser reads, and its messages, depend on the text alone."""
    printing = {"printer.py", "format.py", "prefix_form.py"}  # `prefix_form` formats the older form once it has read it
    found = [
        f"{path.name}:{line} imports {name}"
        for path in (ROOT / "dsl/syntax").rglob("*.py")
        for line, name in imports_of(path)
        if path.name not in printing and is_below(name, f"{SYNTAX}.printer", f"{SYNTAX}.format")
    ]
    assert found == []


def test_the_checker_knows_the_tree_and_not_how_it_was_parsed() -> None:
    """So it neither raises nor catches syntax errors: it reports what is wrong with a meaning."""
    found = [
        f"{path.name}:{line} imports {name}"
        for path in (ROOT / "dsl/semantics").rglob("*.py")
        for line, name in imports_of(path)
        if is_below(name, SYNTAX)
        and not (name == f"{SYNTAX}.tree" or is_below(name, *(f"{SYNTAX}.{m}" for m in ("tree", "printer", "lexicon"))))
    ]
    assert found == []


def test_syntax_does_not_know_meaning() -> None:
    found = [
        f"{path.name}:{line} imports {name}"
        for path in (ROOT / "dsl/syntax").rglob("*.py")
        for line, name in imports_of(path)
        if is_below(name, "wayeb_py.dsl.semantics", "wayeb_py.dsl.meaning")
    ]
    assert found == []


def test_the_errors_need_nothing() -> None:
    assert [name for _, name in imports_of(ROOT / "wayeb_py/errors.py") if name.split(".")[0] not in STANDARD] == []


def test_the_kernels_see_only_arrays_and_each_other() -> None:
    folders = ("kernels", "files/kernels", "spatial/kernels", "rules/kernels", "matches/kernels")
    paths = [path for folder in folders for path in (ROOT / "wayeb_py" / folder).glob("*.py")]
    paths += (path for room in ("pairs", "forecast") for path in (ROOT / "wayeb_py" / room).glob("*kernels.py"))
    paths = [path for path in paths if path.name not in ("__init__.py", "cache.py")]
    kernels = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    for path in paths:
        names = [name for _, name in imports_of(path) if name.split(".")[0] not in STANDARD]
        assert [
            name
            for name in names
            if not is_below(name, "numpy", "numba", "llvmlite", "wayeb_py.kernels.cache", *kernels)
        ] == [], path


def test_the_engine_knows_no_platform() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files_of("wayeb_py")
        for line, name in imports_of(path)
        if is_below(name, "pyspark", "wayeb_py.parallel")
    ]
    # The command line may hand over to another engine; nothing else may know that there is one.
    hands_over = ("wayeb_py/cli/",)
    assert [place for place in found if not place.startswith(hands_over) or "pyspark" in place] == []


# The stages of a pattern and of an event, each of which knows those before it: an import inside a function, or for
# types alone, counts as any other, since a reader of a file has to understand what it names.
STAGES = (
    ("errors",),
    ("dsl",),
    ("arrays", "clock", "growing_arrays", "tally", "text_table", "time_texts"),
    ("kernels", "columns", "functions", "column_names", "files"),
    ("spatial", "simulate", "pairs", "rules", "matches"),
    ("compiler",),
    ("engine",),
    ("forecast",),
    ("providers", "why"),
    ("view",),
    ("run",),
    ("explained_plans",),
    ("traced_detections", "patterns", "stored_patterns"),  # what users of the library hold
    ("cli",),
    ("__main__",),
)
STAGE_OF = {name: number for number, stage in enumerate(STAGES) for name in stage}


def stage_of(module: str) -> int | None:
    """The stage of a module of the package; None for the package itself, which loads names when they are used."""
    parts = module.split(".")
    return STAGE_OF.get(parts[1]) if parts[0] == "wayeb_py" and len(parts) > 1 else None


def test_every_module_of_the_package_has_a_stage() -> None:
    known = {path.relative_to(ROOT / "wayeb_py").parts[0].removesuffix(".py") for path in files_of("wayeb_py")}
    assert known - {"__init__"} == {name for name in STAGE_OF if name != "dsl"}


def test_imports_go_one_way_from_stage_to_stage() -> None:
    backwards = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files_of("wayeb_py")
        for line, name in imports_of(path)
        if (own := stage_of(".".join(path.relative_to(ROOT).with_suffix("").parts))) is not None
        and (other := stage_of(name)) is not None
        and other > own
    ]
    assert backwards == []


# An explanation draws itself as a table when it is asked to: the one pair of modules that name each other.
KNOWN_PAIRS = {("wayeb_py.why.explanation", "wayeb_py.why.table")}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "wayeb_py" else ("wayeb_py", *parts))


@pytest.mark.parametrize("layer", ["dsl", "wayeb_py", "parallel"])
def test_no_two_modules_need_each_other(layer: str) -> None:
    """Directly or round a circle; an import inside a function or for types alone counts as any other."""
    modules = {module_of(path): path for path in files_of(layer) if path.name != "__init__.py"}
    needed = {
        module: {
            other
            for _, name in imports_of(path)
            for other in (name, name.rpartition(".")[0])
            if other in modules and other != module and (module, other) not in KNOWN_PAIRS
        }
        for module, path in modules.items()
    }
    while leaves := {module for module, others in needed.items() if not others & needed.keys()}:
        needed = {module: others for module, others in needed.items() if module not in leaves}
    assert needed == {}, "these modules need each other"


# The folders of parallel/, each of which knows those before it.
FOLDERS = (
    "wire", "spark", "durable", "logs", "receive", "sinks", "health", "recovery", "batch", "stream", "live", "replay"
)  # fmt: skip


def test_every_folder_of_parallel_has_its_turn() -> None:
    folders = {path.relative_to(ROOT / "parallel").parts[0] for path in files_of("parallel")} - {"__init__.py"}
    assert folders == set(FOLDERS)


def test_the_folders_of_parallel_point_one_way() -> None:
    backwards = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files_of("parallel")
        for line, name in imports_of(path)
        if path.parent != ROOT / "parallel" and is_below(name, "wayeb_py.parallel")
        for own, other in [(path.relative_to(ROOT / "parallel").parts[0], name.split(".")[2])]
        if FOLDERS.index(other) > FOLDERS.index(own)
    ]
    assert backwards == []


@pytest.mark.parametrize("layer", ["dsl", "wayeb_py", "parallel"])
def test_a_module_of_ours_is_imported_late_only_for_start_up_time(layer: str) -> None:
    """And the line says so. The command line does it everywhere: a command loads what it runs, and no more."""
    late = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files_of(layer)
        if path.relative_to(ROOT).parts[:2] != ("wayeb_py", "cli")
        for function in nodes_of(path)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if (isinstance(node, ast.ImportFrom) and is_below(node.module or "", "wayeb_py"))
        or (isinstance(node, ast.Import) and is_below(node.names[0].name, "wayeb_py"))
        if "for start-up time" not in path.read_text().splitlines()[node.lineno - 1]
    ]
    assert late == []


# `perf_counter` measures what work took, which is reported and decides nothing. A failpoint holds a process for a test.
CLOCKS = {"time.time", "time.monotonic", "time.sleep", "datetime.now", "datetime.today", "date.today"}
LAST_WORDS = {name.rpartition(".")[2] for name in CLOCKS}
WITH_CLOCKS = {"wayeb_py/clock.py", "parallel/durable/failpoints.py"}


@pytest.mark.parametrize("layer", ["dsl", "wayeb_py", "parallel"])
def test_only_the_clock_asks_the_machine_for_the_time(layer: str) -> None:
    """Everything else takes a `Clock`, so that a test passes its own."""
    asking = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for path in files_of(layer)
        if str(path.relative_to(ROOT)) not in WITH_CLOCKS
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr in LAST_WORDS and ast.unparse(node) in CLOCKS
    ]
    assert asking == []


@pytest.mark.parametrize("layer", ["dsl", "wayeb_py", "parallel", "tests", "benchmarks", "data"])
def test_no_file_imports_a_layer_under_its_bare_name(layer: str) -> None:
    bare = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files_of(layer)
        for _, name in imports_of(path)
        if is_below(name, "dsl", "parallel")
    ]
    assert bare == []


@pytest.mark.parametrize("layer", ["dsl", "wayeb_py", "parallel"])
def test_nothing_changes_the_recursion_limit_which_is_the_whole_process_s(layer: str) -> None:
    assert [path for path in files_of(layer) if "setrecursionlimit" in path.read_text(encoding="utf-8")] == []


HEAVY = ("pyspark", "pandas", "polars")


def loaded_by(program: str, *heavy: str) -> str:
    """Which of the modules are loaded after a program ran in a fresh interpreter."""
    code = f"{program}\nimport sys\nprint(','.join(sorted(set({heavy!r}) & set(sys.modules))))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()[-1]


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import wayeb_py", *HEAVY, "numba", "pyarrow") == ""


def test_importing_the_language_loads_nothing_heavy() -> None:
    assert loaded_by("import wayeb_py.dsl", *HEAVY, "numba", "numpy", "pyarrow") == ""


def test_what_plans_the_batches_of_a_stream_loads_no_engine() -> None:
    engine = ("numba", "pandas", "wayeb_py.engine.recogniser")
    assert loaded_by("import wayeb_py.parallel.stream.source", *engine) == ""


@pytest.mark.parametrize("library", ["fleet", "maritime"])
def test_checking_a_file_with_places_loads_neither_spark_nor_pandas(library: str) -> None:
    program = (
        "import sys, wayeb_py.cli\n"
        f"sys.argv = ['wayeb', 'check', 'patterns/{library}.sre']\n"
        "try:\n    wayeb_py.cli.main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )
    assert loaded_by(program, *HEAVY) == ""
