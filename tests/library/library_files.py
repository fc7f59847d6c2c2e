"""The files of the libraries, found without parsing them: pytest needs them in each of its processes."""

from __future__ import annotations

import re
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "patterns"
FILES = sorted(LIBRARY.rglob("*.sre"))


def _lines(path: Path, begin: str) -> list[str]:
    """What follows on the lines of a file that begin so."""
    return re.findall(rf"^{begin} (.+)", path.read_text(), re.MULTILINE)


_INCLUDED = {(path.parent / name.strip('"')).resolve() for path in FILES for name in _lines(path, "include")}
WHOLE_FILES = [path for path in FILES if path not in _INCLUDED]
WITH_RULES = [path for path in WHOLE_FILES if _lines(path, "rule")]  # the railway includes its own


def name_of(path: Path) -> str:
    return str(path.relative_to(LIBRARY))
