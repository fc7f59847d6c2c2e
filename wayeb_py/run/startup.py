"""What a short-lived process can leave out."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def spare_pandas() -> None:
    """Makes pandas invisible while Arrow looks for it.

    Arrow imports pandas, if it is installed, when it makes its first array, in case that comes from a data frame. No
    command has data frames, and the import takes half a second, which would be a third of the start of a run.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    hidden = _WithoutPandas()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


def compile_kernels() -> None:
    """Compiles every kernel that is not in the cache yet, so that no run has to wait for it."""
    from importlib import import_module

    from wayeb_py.kernels.cache import kernel_modules  # for start-up time
    from wayeb_py.kernels.compiled import load_every_kernel  # for start-up time

    for name in kernel_modules():
        import_module(name)
    load_every_kernel()
