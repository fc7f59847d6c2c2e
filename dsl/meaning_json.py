"""The meaning of pattern files becomes JSON, and comes back as the same tree.

The JSON holds the checked tree and not the text of the files: patterns that a program selected, or whose stream block
was overruled on the command line, have no text of their own. A pickle would be shorter, but reading it would run
whatever it holds.

A tree may be 500 levels high, and a parser of JSON recurses: so the file holds the tree flat, as steps of a stack
machine, parts first. A step is a value as it is, or a pair that says what to make of the last values:

    ["/", "a/3"] a fraction, in hexadecimal     ["()", n] a tuple of the last n     ["source", n] the text of a number
    ["Letter", n] a part of the tree: the last n are the fields that `fields` names
"""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from typing import Any

from wayeb_py import errors
from wayeb_py.dsl import meaning as m

_CLASSES: dict[str, type[Any]] = {
    name: value for name, value in vars(m).items() if dataclasses.is_dataclass(value) and isinstance(value, type)
} | {cls.__name__: cls for cls in (errors.Span, errors.Note, errors.Diagnostic)}
_PLAIN = (str, bool, int, type(None))


def write_meaning(meaning: m.Meaning) -> str:
    """The tree as JSON, the same for equal trees from equal files."""
    steps: list[Any] = []
    sources: dict[tuple[str, str], int] = {}
    fields: dict[str, list[str]] = {}
    waiting: list[Any] = [meaning]
    while waiting:
        item = waiting.pop()
        if isinstance(item, errors.SourceText):
            steps.append(["source", sources.setdefault((item.name, item.text), len(sources))])
        elif isinstance(item, Fraction):
            steps.append(["/", f"{item.numerator:x}/{item.denominator:x}"])
        elif isinstance(item, tuple):
            steps.append(["()", len(item)])
            waiting.extend(item)
        elif isinstance(item, _PLAIN):
            steps.append(item)
        else:
            name = type(item).__name__
            if _CLASSES.get(name) is not type(item):
                raise TypeError(f"a {name} is no part of a meaning")
            names = fields.setdefault(name, [field.name for field in dataclasses.fields(item)])
            steps.append([name, len(names)])
            waiting.extend(getattr(item, name) for name in names)
    steps.reverse()
    return json.dumps({"fields": fields, "sources": list(sources), "steps": steps}, sort_keys=True)


def read_meaning(text: str) -> m.Meaning:
    """The tree that was written; ValueError where the text holds none."""
    try:
        facts = json.loads(text)
        sources = [errors.SourceText(name, text) for name, text in facts["sources"]]
        stack: list[Any] = []
        for step in facts["steps"]:
            if not isinstance(step, list):
                stack.append(step)
                continue
            what, of = step
            if what == "source":
                stack.append(sources[of])
            elif what == "/":
                numerator, denominator = of.split("/")
                stack.append(Fraction(int(numerator, 16), int(denominator, 16)))
            else:
                at = len(stack) - of
                parts = stack[at:]
                del stack[at:]
                made = tuple(parts) if what == "()" else _make(what, facts["fields"][what], parts)
                stack.append(made)
        (meaning,) = stack
    except (LookupError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"this is not the meaning of pattern files: {error}") from error
    if not isinstance(meaning, m.Meaning):
        raise ValueError("this is not the meaning of pattern files")
    return meaning


def _make(name: str, fields: list[str], parts: list[Any]) -> Any:
    """A part of the tree, by the names of its fields; a release with more fields fills in the others."""
    return _CLASSES[name](**dict(zip(fields, parts, strict=True)))
