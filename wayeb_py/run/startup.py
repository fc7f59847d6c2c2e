"""Avoids slow imports that a short run does not need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


class _Without(MetaPathFinder):
    def __init__(self, hidden: str) -> None:
        self.hidden = hidden

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == self.hidden:
            raise ImportError(name)


def spare_pandas() -> None:
    """Makes pandas invisible while Arrow looks for it.

    Arrow imports pandas, if it is installed, when it makes its first array, in case that comes from a data frame. No
    command has data frames, and the import takes half a second, which would be a third of the start of a run.
    """
    if "pandas" not in sys.modules:
        import pyarrow as pa

        with _hidden("pandas"):
            pa.array([0])


def spare_cffi() -> None:
    """Makes cffi invisible while numba looks for it: no kernel calls C through it, and it brings a parser of C."""
    if "cffi" not in sys.modules:
        with _hidden("cffi"):
            import numba.core.typing.cffi_utils  # noqa: F401


def spare_scipy() -> None:
    """Makes scipy invisible while numba looks for it: no kernel needs its algebra."""
    if "scipy" not in sys.modules and "numba" not in sys.modules:
        with _hidden("scipy"):
            import numba.np.arraymath  # noqa: F401


def spare_for_long() -> None:
    """Hides all of these from a long-running process: they are a third of its memory."""
    spare_pandas()
    spare_scipy()
    spare_cffi()


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    finder = _Without(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def compile_kernels(n_processes: int = 1) -> None:
    """Compiles every kernel that is not in the cache yet, so that no run has to wait for it.

    numba compiles one kernel at a time in a process; several processes take the modules in turn and keep the code for
    all.
    """
    from wayeb_py.kernels.cache import kernel_modules, kernel_source, source_of  # for start-up time

    modules = kernel_modules()
    if n_processes > 1 and kernel_source(modules[0]) is not None:
        from concurrent.futures import ProcessPoolExecutor  # for start-up time
        from multiprocessing import get_context

        longest_first = sorted(modules, key=lambda name: len(source_of(name)), reverse=True)
        with ProcessPoolExecutor(n_processes, get_context("spawn")) as pool:
            list(pool.map(_compile_module, longest_first))
    for name in modules:
        _compile_module(name)


def _compile_module(name: str) -> None:
    from importlib import import_module

    from wayeb_py.kernels.compiled import load_kernels_of  # for start-up time

    import_module(name)
    load_kernels_of(name)
