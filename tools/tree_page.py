"""The docstrings of the files become a page of the documentation: the tree, one line a file.

    python -m tools.tree_page            # prints it
    make docs                            # puts it into the site, as a hook of mkdocs

A line is the first sentence of a file's docstring, so a docstring that does not begin with what the file is for shows
at once. Tests are on the page only where folders share them: their names are sentences already. *Not taken*: a
committed page that a test compares; every change of a first line would have to write it again, and two changes would
conflict.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = "tree.md"
TREES = ("dsl", "wayeb_py", "parallel", "benchmarks", "tools")
# Links to other trees, and generated files.
LEFT_OUT = {Path("wayeb_py/dsl"), Path("wayeb_py/parallel"), Path("benchmarks/data"), Path("benchmarks/records")}
HEAD = """# The tree, one line a file

Every folder with what it is for, and every file with the first sentence of its docstring. [How it
works](architecture.md) tells the way that a pattern and an event take through them. `python -m tools.tree_page` makes
this page from the files.
"""
_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)\.(?=\s|$)")


def render_tree() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for tree in TREES for line in _folder(ROOT / tree)), *_tests()])


def first_sentence(path: Path) -> str:
    """What a file says about itself, without the full stop; nothing where it has no docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return _SENTENCE_END.split(paragraph, maxsplit=1)[0].replace("|", "\\|")


def _folder(folder: Path) -> Iterator[str]:
    name = folder.relative_to(ROOT)
    yield f"## `{name}/`\n"
    own = folder / "__init__.py"
    if own.exists() and (said := first_sentence(own)):
        yield f"{said}.\n"
    files = [path for path in sorted(folder.glob("*.py")) if path.name not in ("__init__.py", "__main__.py")]
    if files:
        yield "| file | |\n| --- | --- |"
        yield from (f"| `{path.name}` | {first_sentence(path)} |" for path in files)
        yield ""
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        if inner.relative_to(ROOT) not in LEFT_OUT and any(inner.glob("*.py")):
            yield from _folder(inner)


def _tests() -> Iterator[str]:
    yield "## `tests/`\n"
    yield "The folders of the code, besides:\n"
    yield "| file | |\n| --- | --- |"
    shared = [path for path in sorted((ROOT / "tests").glob("*.py")) if path.name != "__init__.py"]
    yield from (f"| `{path.name}` | {first_sentence(path)} |" for path in shared)
    yield ""


def on_files(files: Any, config: Any) -> Any:
    """Adds the page to the site; mkdocs calls it."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=render_tree()))
    return files


if __name__ == "__main__":
    print(render_tree())
