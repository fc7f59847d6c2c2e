"""Arrays that belong together become one argument of a kernel, a **struct** of arrays.

A class of named fields says what is in it, and its annotations give the types:

    class WordArrays(NamedTuple):      tuple(WordArrays(length=…, last_ts=…))     the caller: a plain tuple
        length: I64                    @kernel(i64(struct(WordArrays), …))        its type
        last_ts: I64                   words = WordArrays(*words)                 in the kernel: names, at no cost

It crosses as a plain tuple: numba's dispatcher derives the type of a plain one from its elements, as fast as if each
were an argument, and refuses an array of another type or layout. *Not taken*: passing named tuples, whose type it gets
from Python, at 2 µs for each in each call; calling past the dispatcher, which takes half the time and looks at no type;
a structure of pointers, which takes less and keeps no array alive. `wayeb bench kernel_calls` measures all of these.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numba as nb
import numpy as np
import numpy.typing as npt

# The annotations of fields.
READ_ONLY, MATRIX = "read only", "matrix"
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
ReadI32 = Annotated[I32, READ_ONLY]
ReadI64 = Annotated[I64, READ_ONLY]
ReadF64 = Annotated[F64, READ_ONLY]
Matrix = Annotated[F64, MATRIX]


def struct(fields: type[Any]) -> Any:
    """The type of a plain tuple that has these fields, by the annotations of the class."""
    hints = get_type_hints(fields, include_extras=True)
    return nb.types.Tuple([_type_of(hint) for hint in hints.values()])  # type: ignore[no-untyped-call]


def _type_of(hint: Any) -> Any:
    scalars = {int: nb.int64, float: nb.float64, bool: nb.boolean}
    if hint in scalars:
        return scalars[hint]
    array, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    (scalar,) = get_args(get_args(array)[1])
    dtype = nb.from_dtype(np.dtype(scalar))
    return nb.types.Array(dtype, 2 if MATRIX in marks else 1, "C", readonly=READ_ONLY in marks)
