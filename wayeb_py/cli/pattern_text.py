"""The text of a pattern file is read, and written again whole or not at all, with the permissions that it had."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wayeb_py.errors import DataError, Diagnostic, PatternError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the file's name into messages about its text."""

    def named(diagnostic: Diagnostic) -> Diagnostic:
        source = dataclasses.replace(diagnostic.source, name=str(path))
        return dataclasses.replace(diagnostic, source=source)

    try:
        yield
    except PatternError as error:
        raise PatternError(map(named, error.diagnostics)) from None


def replace_text(path: Path, text: str) -> None:
    """Writes the file whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o777)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DataError(f"cannot be written: {error.strerror}", str(path)) from error
