"""Measures what a kernel call costs by the form of its arguments: thirty arrays, six structs of five, and other forms.

Every form reads the same thirty arrays. `structs` is how the engine calls kernels (`wayeb_py/kernels/structs.py`); the
others were not taken: named tuples, because numba's dispatcher gets their type from Python; calls past the dispatcher,
because nothing refuses an array of another type or layout there. `counted` is the structs again, in a kernel whose
arrays numba counts references to, which those of ours do only if they make arrays.

analysis: the dispatcher looks at each array once, alone or in a tuple, and the kernel's own wrapper unpacks it
again. A tuple by itself adds next to nothing.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any, NamedTuple

import numba as nb
import numpy as np

from benchmarks.harness.measure import start, stay_on_one_core
from wayeb_py.kernels.structs import I32, I64, struct

N_STRUCTS = 6


class Five(NamedTuple):
    """A struct of five arrays."""

    a: I64
    b: I32
    c: I64
    d: I32
    e: I64


def _sum_flat(  # type: ignore[no-untyped-def]
    n, a0, b0, c0, d0, e0, a1, b1, c1, d1, e1,
    a2, b2, c2, d2, e2, a3, b3, c3, d3, e3,
    a4, b4, c4, d4, e4, a5, b5, c5, d5, e5,
):  # fmt: skip
    return n + a0[0] + e5[1]


def _sum_structs(n, first, b, c, d, e, last):  # type: ignore[no-untyped-def]
    first, last = Five(*first), Five(*last)
    return n + first.a[0] + last.e[1]


def _sum_named(n, first, b, c, d, e, last):  # type: ignore[no-untyped-def]
    return n + first.a[0] + last.e[1]


def main() -> None:
    stay_on_one_core()
    experiment = start("kernel_calls", "a call of a kernel with thirty arrays, by the form of its arguments, one core")
    n_calls = 2_000 if experiment.size == "quick" else 50_000
    longs = [np.full(4, nth, dtype=np.int64) for nth in range(N_STRUCTS)]
    structs = [Five(long, long.astype(np.int32), long, long.astype(np.int32), long) for long in longs]
    plain = [tuple(one) for one in structs]
    flat = [array for one in structs for array in one]
    type_ = struct(Five)
    named = nb.types.NamedTuple(type_.types, Five)  # type: ignore[no-untyped-call]
    count, no_count = {"nogil": True}, {"nogil": True, "_nrt": False}

    def compiled(function: Callable[..., Any], types: list[Any], options: dict[str, Any]) -> Any:
        return nb.njit([nb.int64(nb.int64, *types)], **options)(function)

    in_structs = compiled(_sum_structs, [type_] * N_STRUCTS, no_count)
    calls: dict[str, tuple[Any, list[Any]]] = {
        "structs": (in_structs, plain),
        "thirty arguments": (compiled(_sum_flat, [*type_.types] * N_STRUCTS, no_count), flat),
        "named tuples": (compiled(_sum_named, [named] * N_STRUCTS, no_count), structs),
        "past the dispatcher": (next(iter(in_structs.overloads.values())).entry_point, plain),
        "counted": (compiled(_sum_structs, [type_] * N_STRUCTS, count), plain),
    }
    for name, (call, arguments) in calls.items():
        experiment.check(f"{name}: the same sum", call(7, *arguments) == 7 + N_STRUCTS - 1)

    def calling(call: Any, arguments: list[Any]) -> Callable[[], object]:
        return lambda: timeit.timeit(lambda: call(7, *arguments), number=n_calls)

    seconds = experiment.median_seconds({name: calling(call, arguments) for name, (call, arguments) in calls.items()})
    for name, median_s in seconds.items():
        experiment.row(arguments=name, **{"us a call": 1e6 * median_s / n_calls})
    experiment.bars("A call of a kernel", "arguments", "us a call")
    experiment.finish()


if __name__ == "__main__":
    main()
