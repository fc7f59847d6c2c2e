"""`wayeb forecast --source`: forecasts as events arrive, a line of JSON each, until it is stopped."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.cli.event_files import read_named
from wayeb_py.cli.exit_codes import misuse
from wayeb_py.cli.option_values import refuse_address
from wayeb_py.errors import visible

if TYPE_CHECKING:
    from wayeb_py.forecast.tables import ForecastTables
    from wayeb_py.patterns import Patterns

STATE = "forecasts.state"


def forecast_live(
    patterns: Patterns, tables: Sequence[ForecastTables], source: list[str], checkpoint: Path | None, out: str, *,
    at_least: float, once: bool, quiet: bool,
) -> int:  # fmt: skip
    """Writes forecasts as the events of a source arrive; returns how many."""
    if checkpoint is None:
        misuse("say where to keep how far it got: --checkpoint DIR")
    refuse_address(Path(out))
    if out != "-" and Path(out).suffix != ".ndjson":
        misuse(f"forecasts of a source are lines of JSON: let --out {out} end in .ndjson, or be - for a pipe")
    from wayeb_py.files.output.table_text import render_ndjson
    from wayeb_py.files.output.whole_file import telling_faults
    from wayeb_py.forecast.operator import ForecastOperator
    from wayeb_py.parallel.health.stopping import stopping
    from wayeb_py.parallel.live.live_forecasts import live_forecasts
    from wayeb_py.parallel.recovery.checkpoint import Checkpoint
    from wayeb_py.parallel.stream.endpoints import open_streams

    def say(text: str) -> None:
        if not quiet:
            print(visible(text), file=sys.stderr, flush=True)

    stop = threading.Event()
    operator = ForecastOperator(patterns, tables, at_least=at_least)
    reading: Any = operator.patterns
    sources = read_named(patterns, source, "--source", "SOURCE")
    with stopping(stop, say), Checkpoint(checkpoint) as folder:
        logs = open_streams(sources, folder, reading, say=say)
        with open(1, "wb", closefd=False) if out == "-" else open(out, "ab") as file:

            def give(rows: pa.Table) -> None:
                with telling_faults(None if out == "-" else Path(out)):
                    file.write(render_ndjson(rows))
                    file.flush()

            return live_forecasts(operator, logs, give, state=folder.folder / STATE, once=once, stop=stop, say=say)
