"""Files become their meaning: read, followed through their includes, parsed and checked.

An included file is read once, however many files include it; its declarations come before those of the file that
includes it. A pattern file cannot reach outside its own folder unless the caller allows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.checker import check
from wayeb_py.dsl.semantics.names import OUTSIDE_HINT, leaves_folder
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.parser import parse_source
from wayeb_py.dsl.syntax.prefix.which_form import is_prefix_form
from wayeb_py.errors import DataError, Diagnostic, SourceText, Span

MAX_BYTES = 64 * 1024 * 1024


def read(
    source: str | Path | Sequence[Path],
    *,
    functions: Mapping[str, m.Signature] | None = None,
    key: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    outside: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> m.Meaning:
    """The meaning of a text, of a file, or of several files together."""
    loader = _Loader(outside)
    if isinstance(source, str):
        loader.load(SourceText("<text>", source), None)
    else:
        for path in [source] if isinstance(source, Path) else source:
            loader.load_path(path)
    return check(
        loader.files,
        functions=functions,
        key=key,
        time=time,
        time_unit=time_unit,
        outside=outside,
        errors=loader.errors,
        sizes=sizes,
    )


def read_text(path: Path) -> str:
    """The text of a pattern file; raises DataError if it cannot be read."""
    try:
        data = path.read_bytes()
        if len(data) > MAX_BYTES:
            raise DataError("this is too large for a pattern file", str(path))
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "save the file as UTF-8"
        raise DataError(f"this file is not text in UTF-8 (byte {error.start})", str(path), hint=hint) from None
    except (OSError, ValueError) as error:
        raise DataError(f"this file cannot be read: {_reason(error)}", str(path)) from None


def _reason(error: Exception) -> str:
    return (error.strerror or "unknown reason").lower() if isinstance(error, OSError) else str(error)


class _Loader:
    """Reads files and what they include, each once."""

    def __init__(self, outside: bool) -> None:
        self.outside = outside
        self.files: list[t.File] = []
        self.errors: list[Diagnostic] = []
        self.seen: set[Path] = set()

    def load_path(self, path: Path) -> None:
        resolved = path.resolve()
        if resolved in self.seen:
            return
        self.seen.add(resolved)
        self.load(SourceText(str(path), read_text(path)), path)

    def load(self, source: SourceText, path: Path | None) -> None:
        """Reads a file after everything that it includes; the files that wait for it are on a stack of their own."""
        waiting: list[tuple[t.File, Path | None, list[t.Include]]] = [self.opened(source, path)]
        root = path.resolve().parent if path is not None else None
        while waiting:
            file, own_path, includes = waiting[-1]
            if not includes:
                waiting.pop()
                self.files.append(file)
                continue
            found = self.included(includes.pop(0), file.source, own_path, root)
            if found is not None:
                waiting.append(self.opened(*found))

    def opened(self, source: SourceText, path: Path | None) -> tuple[t.File, Path | None, list[t.Include]]:
        file, errors = _parsed_prefix(source) if is_prefix_form(source.text) else parse_source(source)
        self.errors.extend(errors)
        return file, path, [d for d in file.declarations if isinstance(d, t.Include)]

    def included(
        self, include: t.Include, source: SourceText, path: Path | None, root: Path | None
    ) -> tuple[SourceText, Path] | None:
        """The text of an included file; None if it was read before, or with a report if it cannot be read."""
        folder = path.parent if path is not None else Path()
        target = folder / include.path
        try:
            resolved = target.resolve()
        except (OSError, ValueError, RuntimeError):
            return self.refuse(include, source, "the included file cannot be found", "no such file")
        base = root if root is not None else Path().resolve()
        if not self.outside and (leaves_folder(include.path) or not resolved.is_relative_to(base)):
            return self.refuse(
                include,
                source,
                "the included file is outside the folder of the pattern file",
                "leads out of the folder",
                OUTSIDE_HINT,
            )
        if resolved in self.seen:
            return None
        self.seen.add(resolved)
        if not target.is_file():
            return self.refuse(include, source, "the included file cannot be found", f"no file {target}")
        try:
            return SourceText(str(target), read_text(target)), target
        except DataError as error:
            return self.refuse(include, source, "the included file cannot be read", error.message)

    def refuse(
        self, include: t.Include, source: SourceText, message: str, label: str, hint: str | None = None
    ) -> tuple[SourceText, Path] | None:
        span = include.path_span if include.path_span != Span(0, 0) else include.span
        self.errors.append(Diagnostic("error", message, source, span, label, hint))
        return None


def _parsed_prefix(source: SourceText) -> tuple[t.File, list[Diagnostic]]:
    from wayeb_py.dsl.syntax.prefix.prefix_form import parse_prefix  # for start-up time

    return parse_prefix(source)
