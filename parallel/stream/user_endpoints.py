"""A Python file of the user's becomes an end of a stream: its `open_log` gives the source, its `open_sink` the sink.

    --source python:my_source.py     open_log() -> Log      a subclass of `logs.log.Log`
    --out    python:my_sink.py       open_sink() -> Sink    `sinks.Sink`: open, write, close

The file runs with the rights of the caller, in the driver. Spark sends a log to its workers, which cannot import the
file: so its classes travel by value. *Not taken*: names of importable modules (`package.module:name`), which would have
to be installed on every machine of a cluster.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.parallel.logs.log import Log
from wayeb_py.parallel.sinks.sinks import Sink

PYTHON = "python:"

_LOG = ("name", "schema", "earliest", "latest", "read", "forget")
_SINK = ("open", "write", "close")


def open_own_log(source: str) -> Log:
    """The log that `open_log` of the file gives; DataError where it is none."""
    log: Log = _call(source, "open_log")
    if Log not in type(log).__mro__:
        raise DataError(
            f"`open_log` gives a {type(log).__name__}, which is no Log",
            source.removeprefix(PYTHON),
            hint="derive its class from wayeb_py.parallel.logs.log.Log",
        )
    _require(log, _LOG, source, "open_log")
    return log


def open_own_sink(out: str) -> Sink:
    """The sink that `open_sink` of the file gives; DataError where it is none."""
    sink: Sink = _call(out, "open_sink")
    _require(sink, _SINK, out, "open_sink")
    return sink


def _require(made: object, names: Sequence[str], text: str, function: str) -> None:
    missing = [name for name in names if getattr(type(made), name, None) in (None, getattr(Log, name, None))]
    if missing:
        raise DataError(
            f"what `{function}` gives has no {' and no '.join(f'`{name}`' for name in missing)}",
            text.removeprefix(PYTHON),
        )


def _call(text: str, function: str) -> Any:
    path = Path(text.removeprefix(PYTHON))
    module = _load(path)
    make = getattr(module, function, None)
    if not callable(make):
        raise DataError(f"there is no function `{function}` in it", str(path))
    try:
        return make()
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"`{function}` failed: {error}", str(path)) from error


def _load(path: Path) -> Any:
    name = f"wayeb_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise DataError("there is no such Python file", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where pickling looks for classes
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise DataError(f"it cannot be run: {error}", str(path)) from error
    if "pyspark" in sys.modules:  # otherwise nothing leaves this process
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(module)
    return module
