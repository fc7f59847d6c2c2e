"""Predicates and functions that a user writes in Python and calls from patterns.

    @wayeb_py.predicate("number", "number")
    def windy(speed, gust): return gust > 2 * speed

A decorated function gets whole columns as numpy arrays (numbers as float64, text as arrays of str, booleans, times as
seconds since 1970); with `scalar=True` it gets one event's values and is compiled. A missing operand never reaches it:
the predicate is false there, the function's result missing. A .sre file can only call functions that the caller of
`compile` passes in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wayeb_py.dsl.meaning import Kind, Signature
from wayeb_py.errors import EventsError

if TYPE_CHECKING:
    from wayeb_py.columns import Column

KINDS = ("number", "text", "bool", "time")


@dataclass(slots=True)
class UserFunction:
    """A user's function and how patterns call it."""

    signature: Signature
    function: Callable[..., Any]
    scalar: bool
    _compiled: Callable[..., Any] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.signature.name

    def __call__(self, *operands: Any) -> Any:
        return self.function(*operands)

    def __getstate__(self) -> tuple[Signature, Callable[..., Any], bool]:
        return self.signature, self.function, self.scalar

    def __setstate__(self, state: tuple[Signature, Callable[..., Any], bool]) -> None:
        self.signature, self.function, self.scalar = state
        self._compiled = None

    def apply(self, columns: Sequence[Column], n: int, kind: Kind | None) -> Column:
        """The column of results; `kind` is None for a predicate."""
        from wayeb_py.columns import Column  # for start-up time

        arrays, absent = [], np.zeros(n, dtype=bool)
        for column in columns:
            values, missing = _plain(column)
            arrays.append(values)
            absent |= missing
        result = self._call(arrays, n, ~absent)
        if kind in (None, "bool"):
            flags = np.zeros(n, dtype=np.uint8)
            flags[~absent] = np.asarray(result[~absent], dtype=bool)
            if kind == "bool":
                flags[absent] = 2
            return Column("bool", flags)
        if kind == "text":
            words = [None if gone else str(word) for word, gone in zip(result, absent, strict=True)]
            distinct = sorted({word for word in words if word is not None})
            code = {word: i for i, word in enumerate(distinct)}
            codes = np.array([len(distinct) if w is None else code[w] for w in words], dtype=np.int32)
            return Column("text", codes, words=list(distinct))
        values = np.full(n, np.nan)
        values[~absent] = np.asarray(result[~absent], dtype=np.float64)
        return Column("number", values, own=np.float64)

    def _call(self, arrays: list[npt.NDArray[Any]], n: int, present: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        given = [array[present] for array in arrays]
        n_given = int(present.sum())
        try:
            if not self.scalar:
                answer = np.asarray(self.function(*given))
                if answer.shape != (n_given,):
                    raise EventsError(
                        f"the function `{self.name}` was given {n_given} events and returned {answer.shape}",
                        hint="return one value an event, or declare it with scalar=True",
                    )
            elif any(array.dtype == object for array in given) or self.signature.result == "text":
                answer = np.array([self.function(*row) for row in zip(*given, strict=True)])
            else:
                answer = self._compile()(*given) if n_given else np.zeros(0)
        except EventsError:
            raise
        except Exception as error:
            raise EventsError(f"the function `{self.name}` failed: {type(error).__name__}: {error}") from error
        result = np.zeros(n, dtype=answer.dtype if n_given else np.float64)
        if n_given:
            result[present] = answer
        return result

    def _compile(self) -> Callable[..., Any]:
        if self._compiled is None:
            import numba

            vectorize: Any = numba.vectorize
            self._compiled = vectorize(self.function)
        compiled = self._compiled
        assert compiled is not None
        return compiled


def _plain(column: Column) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    from wayeb_py.columns import to_float  # for start-up time

    if column.kind == "text":
        words = np.array([*(column.words or []), None], dtype=object)[column.values]
        return words, np.array([word is None for word in words], dtype=bool)
    if column.kind == "bool":
        return column.values == 1, column.values == 2
    values = to_float(column)
    return values, np.isnan(values)


def predicate(
    *operands: Kind, name: str | None = None, scalar: bool = False
) -> Callable[[Callable[..., Any]], UserFunction]:
    """Makes a Python function a predicate that patterns can call, given the kinds of its operands."""
    return _decorate(operands, None, name, scalar)


def function(
    *operands: Kind, result: Kind = "number", name: str | None = None, scalar: bool = False
) -> Callable[[Callable[..., Any]], UserFunction]:
    """Makes a Python function a value that patterns can call, given the kinds of its operands and of its result."""
    return _decorate(operands, result, name, scalar)


def _decorate(
    operands: tuple[Kind, ...], result: Kind | None, name: str | None, scalar: bool
) -> Callable[[Callable[..., Any]], UserFunction]:
    if any(not isinstance(operand, str) for operand in operands):
        raise TypeError('give the kinds of the operands, as in @predicate("number", "text")')
    for kind in (*operands, *([] if result is None else [result])):
        if kind not in KINDS:
            raise TypeError(f"`{kind}` is no kind of operand or result; there are {', '.join(KINDS)}")
    return lambda f: UserFunction(Signature(name or f.__name__, tuple(operands), result), f, scalar)
