"""The declarations of all files by name: every name once, and the `let`s in an order that works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import UNITS
from wayeb_py.errors import Note, SourceText, Span


@dataclass(slots=True)
class DeclaredNames:
    """The declarations by name, each with the file that declares it."""

    streams: list[tuple[t.Stream, SourceText]] = field(default_factory=list)
    lets: dict[str, tuple[t.Let, SourceText]] = field(default_factory=dict)
    knowledge: dict[str, m.Knowledge] = field(default_factory=dict)
    lookups: dict[str, m.Lookup] = field(default_factory=dict)
    patterns: dict[str, tuple[t.Pattern, SourceText]] = field(default_factory=dict)
    facts: dict[str, tuple[t.Facts, SourceText]] = field(default_factory=dict)
    rules: dict[str, tuple[t.Rule, SourceText]] = field(default_factory=dict)
    tests: list[tuple[t.Test, SourceText]] = field(default_factory=list)
    forecasts: list[tuple[t.Forecast, SourceText]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    broken_patterns: set[str] = field(default_factory=set)
    has_broken_pattern: bool = False
    has_broken_stream: bool = False


def gather(files: Sequence[t.File], report: Diagnostics, outside: bool = False) -> DeclaredNames:
    """All declarations; a name that is declared twice is reported and keeps its first meaning."""
    gathered = DeclaredNames()
    first: dict[tuple[str, str], tuple[SourceText, Span]] = {}

    def is_new(space: str, name: str, source: SourceText, span: Span, what: str) -> bool:
        known = first.setdefault((space, name), (source, span))
        if known == (source, span):
            return True
        note = Note(known[0], known[1], "declared first here")
        report.error(source, f"{what} `{name}` is declared twice", span, "a second time", note=note)
        return False

    for file in files:
        source = file.source
        for declaration in file.declarations:
            match declaration:
                case t.Stream():
                    gathered.streams.append((declaration, source))
                case t.Let(name=name, name_span=span):
                    if is_new("name", name, source, span, "the name"):
                        gathered.lets[name] = (declaration, source)
                case t.Knowledge(name=name, name_span=span, shape=shape, path=path, name_column=column):
                    if not outside:
                        _check_path(path, source, declaration.path_span, report)
                    if is_new("name", name, source, span, "the name"):
                        gathered.knowledge[name] = m.Knowledge(name, shape, path, source, span=span, name_column=column)
                case t.Lookup(name=name, name_span=span, path=path, valid=valid, nearest=nearest):
                    if not outside:
                        _check_path(path, source, declaration.path_span, report)
                    if is_new("name", name, source, span, "the name"):
                        valid_s, nearest_m = (n.value * UNITS[n.unit or "s"].factor for n in (valid, nearest))
                        gathered.lookups[name] = m.Lookup(name, path, valid_s, nearest_m, source, span=span)
                case t.Pattern(name=name, name_span=span):
                    if is_new("pattern", name, source, span, "the pattern"):
                        gathered.patterns[name] = (declaration, source)
                case t.Facts(name=name, name_span=span, path=path):
                    if path is not None and not outside:
                        _check_path(path, source, declaration.from_span, report)
                    if is_new("name", name, source, span, "the name"):
                        gathered.facts[name] = (declaration, source)
                case t.Rule(name=name, name_span=span):
                    # Its name stands in the same column as those of patterns.
                    if is_new("pattern", name, source, span, "the rule"):
                        gathered.rules[name] = (declaration, source)
                case t.Test():
                    gathered.tests.append((declaration, source))
                case t.Forecast():
                    gathered.forecasts.append((declaration, source))
                case t.Broken(keyword=keyword, name=broken):
                    _note_broken(gathered, keyword, broken)
    return gathered


def _note_broken(gathered: DeclaredNames, keyword: str, name: str | None) -> None:
    if keyword in ("pattern", "rule", "", "test"):
        gathered.has_broken_pattern = True
    if keyword == "stream":
        gathered.has_broken_stream = True
    if name is not None and keyword in ("pattern", "rule", ""):
        gathered.broken_patterns.add(name)
    if name is not None and keyword not in ("pattern", "rule"):
        gathered.broken.add(name)


OUTSIDE_HINT = "allow it with --outside (in Python: outside=True), or move the file"


def leaves_folder(path: str) -> bool:
    """Whether a relative path leads out of the folder it starts from."""
    depth = 0
    for part in PurePosixPath(path.replace("\\", "/")).parts:
        if part == "/" or part.endswith(":"):
            return True
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _check_path(path: str, source: SourceText, span: Span, report: Diagnostics) -> None:
    if not path:
        report.error(source, "the path of this file is empty", span, "no file")
    elif leaves_folder(path):
        report.error(
            source,
            "this file is outside the folder of the pattern file",
            span,
            "leads out of the folder",
            OUTSIDE_HINT,
        )


def order_lets(gathered: DeclaredNames, report: Diagnostics) -> list[tuple[t.Let, SourceText]]:
    """The lets in an order in which each uses only earlier ones; those in a cycle are reported and left out."""
    uses = {name: names_in(let.body) & gathered.lets.keys() for name, (let, _) in gathered.lets.items()}
    ordered: list[tuple[t.Let, SourceText]] = []
    done: set[str] = set()
    wrong: set[str] = set()
    for root in gathered.lets:
        if root in done:
            continue
        path: list[tuple[str, list[str]]] = [(root, sorted(uses[root]))]
        on_path = {root}
        while path:
            name, rest = path[-1]
            if rest:
                used = rest.pop()
                if used in on_path:
                    cycle = [step for step, _ in path]
                    wrong.update(_report_cycle(cycle[cycle.index(used) :], gathered, report))
                elif used not in done:
                    path.append((used, sorted(uses[used])))
                    on_path.add(used)
                continue
            path.pop()
            on_path.discard(name)
            done.add(name)
            if name not in wrong:
                ordered.append(gathered.lets[name])
    return ordered


def _report_cycle(cycle: list[str], gathered: DeclaredNames, report: Diagnostics) -> list[str]:
    let, source = gathered.lets[cycle[0]]
    if len(cycle) == 1:
        report.error(source, f"`{cycle[0]}` is defined by itself", let.name_span, "needs its own meaning")
        return cycle
    second, second_source = gathered.lets[cycle[1]]
    way = " → ".join(f"`{name}`" for name in [*cycle, cycle[0]])
    note = Note(second_source, second.name_span, f"which needs `{cycle[2 % len(cycle)]}`")
    report.error(
        source, f"these `let`s are defined by each other: {way}", let.name_span, f"needs `{cycle[1]}`", note=note
    )
    return cycle


def names_in(root: t.Expression) -> set[str]:
    """The names that an expression mentions."""
    found: set[str] = set()
    waiting: list[object] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, t.Name):
            found.add(item.name)
        elif isinstance(item, t.Call):
            found.add(item.function)  # `off(x > 3)` lacks a `;`: what `off` is shows that
            waiting.extend(item.arguments)
        elif isinstance(item, t.Expression):
            waiting.extend(t.parts_of(item))
    return found
