"""Python functions become kernels: compiled ahead for explicit signatures, kept, and loaded at their first call.

One family of kernels serves every pattern, driven by tables, so a new pattern compiles nothing. No fastmath: NaN must
stay NaN. *Not taken*: code generated for each pattern, which was no faster and pays at every change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

import numba as nb
import numpy as np

from wayeb_py.kernels.cache import kernel_source

i16, i32, i64, u8, u16, f32, f64 = nb.int16, nb.int32, nb.int64, nb.uint8, nb.uint16, nb.float32, nb.float64
two_i64: Any = nb.types.UniTuple(i64, 2)  # type: ignore[no-untyped-call]


def read_only(dtype: Any) -> Any:
    """The type of an array that may lie in memory that we must not write, such as Arrow's."""
    return nb.types.Array(dtype, 1, "C", readonly=True)


class Kernel:
    """A function with its explicit signatures, each compiled, or loaded from the cache, when it is first called.

    Loading takes milliseconds a signature, and a run needs a third of them. Where there are several, the type of the
    first argument decides.
    """

    every: ClassVar[list[Kernel]] = []

    def __init__(self, function: Callable[..., Any], signatures: tuple[Any, ...], allocates: bool) -> None:
        self._function = function
        self._allocates = allocates
        self._signatures = {self._kind(signature.args[0]): signature for signature in signatures}
        assert len(self._signatures) == len(signatures), f"{function.__name__}: the first argument tells them apart"
        self._compiled: dict[Any, Callable[..., Any]] = {}
        functools.update_wrapper(self, function)
        Kernel.every.append(self)

    @staticmethod
    def _kind(argument: Any) -> Any:
        return np.dtype(str(argument.dtype)) if hasattr(argument, "dtype") else None

    def __call__(self, first: Any, *others: Any) -> Any:
        kind = first.dtype if isinstance(first, np.ndarray) else None
        compiled = self._compiled.get(kind)
        if compiled is None:
            compiled = self._load(kind)
        return compiled(first, *others)

    def _load(self, kind: Any) -> Callable[..., Any]:
        # A dispatcher of its own for each signature: one that holds several would load them all.
        source = kernel_source(self._function.__module__)
        code = self._function.__code__
        function = FunctionType(
            code if source is None else code.replace(co_filename=source),
            self._function.__globals__,
            self._function.__name__,
        )
        options: Any = {"nogil": True, "cache": source is not None, "_nrt": self._allocates}
        loaded: Callable[..., Any] = nb.njit([self._signatures[kind]], **options)(function)
        self._compiled[kind] = loaded
        return loaded

    @functools.cached_property
    def entry_point(self) -> Callable[..., Any]:
        """The compiled function of the one signature, which takes arrays without a look at their types: for a caller
        that makes all arrays itself, or has passed the same ones through a call before."""
        (kind,) = self._signatures
        loaded: Any = self._compiled.get(kind) or self._load(kind)
        (compiled,) = loaded.overloads.values()
        entry: Callable[..., Any] = compiled.entry_point
        return entry

    def load_all(self) -> None:
        for kind in self._signatures:
            if kind not in self._compiled:
                self._load(kind)


def kernel(*signatures: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Makes a kernel of a function that makes no array; signatures differ in the type of their first argument.

    It is compiled without numba's counting of references (`_nrt`), which costs a call and an atomic instruction each
    time that an array is passed on, in the middle of loops: the caller holds all arrays while the kernel runs.
    """
    return lambda function: Kernel(function, signatures, allocates=False)


def allocating_kernel(*signatures: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Makes a kernel of a function that makes arrays (`np.empty`, a copy, a sort): numba counts references to them."""
    return lambda function: Kernel(function, signatures, allocates=True)


def inlined(function: Callable[..., Any]) -> Any:
    """Inlines a function into the kernels that call it: a call costs nothing, and constants are known."""
    return nb.njit(nogil=True, inline="always")(function)


def subroutine(function: Callable[..., Any]) -> Any:
    """Makes a function that kernels call; it makes no array, and counts none, whichever kernel calls it."""
    options: Any = {"nogil": True, "_nrt": False}
    return nb.njit(**options)(function)


def load_kernels_of(module: str) -> None:
    """Compiles what is not in the cache yet of a module that was imported, so that no run waits for it later."""
    for each in Kernel.every:
        if each._function.__module__ == module:
            each.load_all()
