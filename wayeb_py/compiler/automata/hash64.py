"""Makes 64-bit numbers that look random and are the same everywhere, so that two things hardly ever share one."""

from __future__ import annotations

import numpy as np

from wayeb_py.arrays import U64


def mixed(values: U64) -> U64:
    """Well mixed bits (the finaliser of splitmix64); 0 stays 0."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
