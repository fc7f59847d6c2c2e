"""Reads the text of a pattern file, and writes it whole or not at all, with its old permissions."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wayeb_py.errors import DataError, Diagnostic, PatternError
from wayeb_py.files.output.whole_file import whole_file


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
    try:
        with whole_file(path) as whole:
            whole.write(text.encode())
            if path.exists():
                os.fchmod(whole.open().fileno(), path.stat().st_mode & 0o777)
    except (DataError, OSError) as error:
        under = error if isinstance(error, OSError) else error.__cause__
        reason = under.strerror if isinstance(under, OSError) else error
        raise DataError(f"cannot be written: {reason}", str(path)) from error
