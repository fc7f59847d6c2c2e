"""Prefetches a line of memory: the processor fetches it while the kernel goes on.

Worth it where a kernel knows some rows ahead which entity it will look at, and entities are too many for the caches.
Nothing is read and nothing can fail, so an address that turns out not to be needed costs an instruction. *Not taken*:
reading the element and adding it to a sum that is thrown away, which waits for the memory after all.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_TO_READ, _KEEP, _DATA = 0, 3, 1  # arguments of llvm.prefetch: read or write, locality, data or code


def _prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Fetches the line of an array's element, counted from the beginning through all its rows."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, arguments[0]).data  # type: ignore[no-untyped-call]
        whole = ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        form = ir.FunctionType(ir.VoidType(), [address.type, whole, whole, whole])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], form)
        builder.call(function, [address, *(whole(number) for number in (_TO_READ, _KEEP, _DATA))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Any = intrinsic(_prefetch)  # prefetch(array, place)
