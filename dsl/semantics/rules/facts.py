"""`facts` become tables: the columns that rules can read, and the file or the stream that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.names import DeclaredNames
from wayeb_py.dsl.semantics.scope import Diagnostics, Kinds, Scope
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.wording import counted
from wayeb_py.errors import Note, SourceText

OP = "op"
"""The column of a stream of changes that says what each does: `+` or `-`."""


def read_facts(
    gathered: DeclaredNames, scopes: Mapping[str | None, Scope], report: Diagnostics
) -> dict[str, tuple[m.Facts, Scope]]:
    """All facts by name, each with a scope of its columns; those with an error are reported and left out."""
    found: dict[str, tuple[m.Facts, Scope]] = {}
    for name, (facts, source) in gathered.facts.items():
        made = _read(facts, source, scopes, report)
        if made is not None:
            found[name] = made
    return found


def with_kinds(facts: m.Facts, scope: Scope) -> m.Facts:
    """The facts, with the kinds of their columns as rules use them."""
    columns = tuple(
        replace(column, kind=column.kind or scope.kinds.known.get((column.name,))) for column in facts.columns
    )
    return replace(facts, columns=columns)


def _read(
    facts: t.Facts, source: SourceText, scopes: Mapping[str | None, Scope], report: Diagnostics
) -> tuple[m.Facts, Scope] | None:
    first: dict[str, t.Name] = {}
    for column in facts.columns:
        if column.name in first:
            note = Note(source, first[column.name].span, "the first is here")
            report.error(source, f"two columns are called `{column.name}`", column.span, "a second time", note=note)
            return None
        first[column.name] = column
    if facts.stream is not None:
        return _from_changes(facts, facts.stream, source, scopes, report)
    columns = tuple(m.Attribute(name.name, None, span=name.span) for name in facts.columns)
    file_columns = tuple(text.value for text in facts.file_columns) or tuple(column.name for column in columns)
    if len(file_columns) != len(columns):
        report.error(
            source,
            f"`{facts.name}` has {counted(len(columns), 'column')}, "
            f"and of the file {counted(len(file_columns), 'is', 'are')} named",
            facts.file_columns[-1].span,
            "one name for each column, in the same order",
        )
        return None
    made = m.Facts(facts.name, columns, source, facts.path, file_columns, span=facts.name_span)
    like = next(iter(scopes.values()))
    attributes = {column.name: column for column in columns}
    return made, replace(like, stream=m.Stream(), attributes=attributes, has_attr_lines=True, kinds=Kinds())


def _from_changes(
    facts: t.Facts, stream: str, source: SourceText, scopes: Mapping[str | None, Scope], report: Diagnostics
) -> tuple[m.Facts, Scope] | None:
    scope = scopes.get(stream)
    if scope is None:
        if not any(known.stream_is_broken for known in scopes.values()):
            hint = report.suggest(stream, [name for name in scopes if name is not None])
            report.error(source, f"no stream is called `{stream}`", facts.from_span, "not declared in this file", hint)
        return None
    if scope.has_attr_lines:
        op = scope.attributes.get(OP)
        if op is None or op.kind != "text":
            report.error(
                source,
                f"a change says by its column `{OP}` whether it begins or ends a fact, and `{stream}` has none of text",
                facts.from_span,
                f"no column `{OP}`",
                f"add a line to its block: `attr {OP} text`",
            )
            return None
        for column in facts.columns:
            if column.name not in scope.attributes:
                hint = report.suggest(column.name, list(scope.attributes))
                label = f"not in the event schema of `{stream}`"
                report.error(source, f"unknown attribute `{column.name}`", column.span, label, hint)
                return None
    attributes = {name.name: scope.attributes.get(name.name, m.Attribute(name.name, None)) for name in facts.columns}
    columns = tuple(replace(attributes[name.name], span=name.span) for name in facts.columns)
    made = m.Facts(facts.name, columns, source, stream=stream, span=facts.name_span)
    return made, replace(scope, stream=m.Stream(), attributes=attributes, has_attr_lines=True)
