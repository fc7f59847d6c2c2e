"""Times are whole numbers of ticks: the one that means "none", the longest span, and how far apart two times are."""

from __future__ import annotations

import numpy as np

from wayeb_py.kernels.compiled import inlined

NEVER = np.int64(-(2**63))  # as a time or an elapsed time: there is none
FOREVER = np.int64(2**63 - 1)


@inlined
def span(later, earlier):  # type: ignore[no-untyped-def]
    """How far apart two times are; nanoseconds of centuries that 64 bits cannot hold are as far as they can."""
    apart = np.uint64(later) - np.uint64(earlier)  # without a sign the difference cannot overflow
    return np.int64(apart) if apart < np.uint64(FOREVER) else FOREVER
