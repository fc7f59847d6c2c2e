"""Frozen trees that may be 500 levels high: equality, hash, repr and pickle without recursion.

A plain frozen dataclass compares, hashes and pickles itself by recursion, about four interpreter levels for each level
of the tree, and Python's limit of 1,000 is reached at a height of 250. Raising that limit would change it for the whole
process of every user of this package; walking with a list costs a little speed and has no limit.

The type checker is what keeps these classes frozen. Python's own `frozen` compiles two more functions for each class,
and there are over a hundred classes: at every start that took as long as reading and compiling a small file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

from wayeb_py.errors import Span

_Class = TypeVar("_Class")


class _WithHash:
    """Room for a hash that is kept: columns of a chunk are found by their values, many times a chunk."""

    __slots__ = ("_hash",)

    _hash: int


class Node(_WithHash):
    """A frozen dataclass of nodes, tuples of them, and small values; fields with compare=False do not count."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        pairs: list[tuple[Any, Any]] = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            if type(a) is not type(b):
                return False
            if isinstance(a, Node):
                pairs.extend((getattr(a, name), getattr(b, name)) for name in compared_fields(type(a)))
            elif isinstance(a, tuple):
                if len(a) != len(b):
                    return False
                pairs.extend(zip(a, b, strict=True))
            elif a != b:
                return False
        return True

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = known = self._compute_hash()
            return known

    def _compute_hash(self) -> int:
        leaves: list[Any] = []
        waiting: list[Any] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Node):
                leaves.append(type(item).__name__)
                waiting.extend(getattr(item, name) for name in compared_fields(type(item)))
            elif isinstance(item, tuple):
                leaves.append(len(item))
                waiting.extend(item)
            else:
                leaves.append(item)
        return hash(tuple(leaves))

    def __repr__(self) -> str:
        out: list[str] = []
        waiting: list[tuple[bool, Any]] = [(False, self)]  # (is text that is ready, the text or a value)
        while waiting:
            ready, item = waiting.pop()
            if ready:
                out.append(item)
            elif isinstance(item, Node):
                pieces: list[tuple[bool, Any]] = [(True, f"{type(item).__name__}(")]
                for i, name in enumerate(compared_fields(type(item))):
                    pieces += [(True, f"{', ' if i else ''}{name}="), (False, getattr(item, name))]
                waiting.extend(reversed([*pieces, (True, ")")]))
            elif isinstance(item, tuple):
                pieces = [(True, "(")]
                for value in item:
                    pieces += [(False, value), (True, ", ")]
                waiting.extend(reversed([*pieces, (True, ")")]))
            else:
                out.append(repr(item))
        return "".join(out)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return rebuild, (_flatten(self),)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(cls: type[_Class]) -> type[_Class]:
    """A frozen dataclass that leaves equality, hash and repr to `Node`."""
    # A dataclass without a docstring gets its signature as one, which takes as long as all else.
    cls.__doc__ = cls.__doc__ or cls.__name__
    return dataclass(slots=True, eq=False, repr=False)(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_Class]) -> type[_Class]:
    """A frozen dataclass of a small height, with equality, hash and repr by its fields."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


NOWHERE = Span(0, 0)


@node
class Spanned(_WithHash):
    """A node that stands somewhere in a text. The place does not count: two nodes that differ in nothing else are
    equal."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


_compared: dict[type, tuple[str, ...]] = {}
_all: dict[type, tuple[str, ...]] = {}


def compared_fields(cls: type[Any]) -> tuple[str, ...]:
    """The names of the fields that count for equality."""
    names = _compared.get(cls)
    if names is None:
        names = _compared[cls] = tuple(f.name for f in fields(cls) if f.compare)
    return names


def _all_fields(cls: type[Any]) -> tuple[str, ...]:
    names = _all.get(cls)
    if names is None:
        names = _all[cls] = tuple(f.name for f in fields(cls))
    return names


class _Leaf:
    """Marks a step of a flattened tree that pushes a value as it is."""


def _flatten(root: Node) -> tuple[tuple[type, Any], ...]:
    """The tree as steps for a stack machine, children first: (class, number of fields) or (_Leaf, value)."""
    steps: list[tuple[type, Any]] = []
    waiting: list[Any] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Node):
            names = _all_fields(type(item))
            steps.append((type(item), len(names)))
            waiting.extend(getattr(item, name) for name in names)
        elif type(item) is tuple:
            steps.append((tuple, len(item)))
            waiting.extend(item)
        else:
            steps.append((_Leaf, item))
    steps.reverse()
    return tuple(steps)


def rebuild(steps: tuple[tuple[type, Any], ...]) -> Any:
    """The tree that these steps build."""
    stack: list[Any] = []
    for kind, value in steps:
        if kind is _Leaf:
            stack.append(value)
            continue
        parts = stack[len(stack) - value :]
        del stack[len(stack) - value :]
        made = tuple(parts) if kind is tuple else kind(**dict(zip(_all_fields(kind), parts, strict=True)))
        stack.append(made)
    return stack.pop()
