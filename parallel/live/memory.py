"""Returns to the system what only the start of a live stream needed: the code of the compiler, and freed memory.

Kernels are loaded by a compiler whose code is as large as everything else of the process, and is not asked again. The
system can read it again from its file, so its pages are given back; so is what the allocators have kept. Objects
that are there for good are no longer looked through for garbage, which would make the stream stop for a moment.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

import pyarrow as pa

AFTER_BATCHES = (1, 10, 100)  # when what a stream needs has been loaded, and when what is rarer has
_MAPS = Path("/proc/self/maps")
_COMPILER = "libllvmlite"
_DONTNEED = 4  # MADV_DONTNEED: pages of a private mapping of a file are read again at their next use


def settle_objects() -> None:
    """Collects garbage, and never looks again at what is left."""
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Gives back what is not used; does nothing where the system cannot."""
    gc.freeze()
    pa.default_memory_pool().release_unused()
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    if hasattr(libc, "madvise"):
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for begin, end in _code_of(_COMPILER):
            libc.madvise(begin, end - begin, _DONTNEED)


def _code_of(library: str) -> list[tuple[int, int]]:
    """Where a library's code is: pages that are read and run, and cannot have been written."""
    try:
        lines = _MAPS.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        if library in line and line.split()[1] == "r-xp":
            begin, _, end = line.split()[0].partition("-")
            found.append((int(begin, 16), int(end, 16)))
    return found
