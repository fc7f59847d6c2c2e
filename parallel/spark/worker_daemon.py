"""The process that Spark's Python workers are forked from, with everything loaded that they need.

Spark starts one such process on each machine and forks a worker for each task slot; its own loads nothing before the
fork, so that every worker imports pyspark's half of the protocol, Arrow, numba and us again: two seconds each. Named by
`spark.python.daemon.module`, this one imports first and then does what Spark's does. Forking is safe only while there
is one thread, and none of the imports starts another; calls that would (Arrow's pools, reading a file) do not occur
here.

Workers keep the memory that a task frees, up to a bound: arrays of some megabytes come and go with every few events,
and the system clears each page that it hands out again, which took a third of the time of recognising pairs.

*Not taken*: loading more in each worker and keeping workers (they are kept anyway; it is the first task that waits).
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

KEPT_BYTES = 256 << 20  # free memory that a worker keeps, at most
_MAPPED_BYTES = 32 << 20  # larger arrays always have pages of their own: glibc allows no more
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them


def load() -> None:
    """Imports what a worker of ours needs, without starting a thread."""
    # OpenBLAS and Arrow's allocator start threads when they are imported, unless the environment forbids it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    _keep_memory()
    _prefer_installed_pyspark()
    import pyspark.worker  # noqa: F401

    from wayeb_py.run import startup  # for start-up time

    startup.spare_pandas()
    import wayeb_py.engine.recogniser  # for start-up time
    import wayeb_py.parallel.wire.parcel  # noqa: F401 (for start-up time)

    # Workers collect garbage after every task, and would go through all of this each time: 40 ms.
    gc.collect()
    gc.freeze()


def _keep_memory() -> None:
    """Lets glibc keep what is freed, and Arrow take its memory from there; elsewhere, and where the environment says
    something else, does nothing."""
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES):
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def _prefer_installed_pyspark() -> None:
    """Takes pyspark from where it is installed, if it is the same version: Spark names its zip first, without byte
    code."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    if "pyspark" in sys.modules:
        return
    others = [entry for entry in sys.path if os.path.basename(entry) != "pyspark.zip"]
    installed = PathFinder.find_spec("pyspark", others)
    zipped = find_spec("pyspark")
    if installed is None or installed.origin is None or zipped is None or zipped.origin is None:
        return
    home = os.path.dirname(installed.origin)
    if zipped.origin.startswith(home + os.sep):  # the zip of that very installation
        sys.path[:] = others


if __name__ == "__main__":
    load()
    from pyspark.daemon import manager

    manager()
