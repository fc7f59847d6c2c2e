"""Logs become forecasts as their events arrive: read, fed, given away at once, and kept so that a restart goes on.

    logs ──▶ what is new in each partition ──▶ `ForecastOperator` ──▶ rows ──▶ `give` ──▶ state and offsets in one file

The state is kept after the rows were given, and offsets with it: after a crash the rows since then come again, with
the same values. A forecast is about the moment, so this is enough; *not taken*: the ledger of a stream of
detections, which gives each of them exactly once.

Forecasts of pairs wait for the clock, which waits for every partition: which of them are away is not noted here, so a
partition that is silent for long holds them back.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.forecast.operator import ForecastOperator
from wayeb_py.parallel.live.inputs import Inputs
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets

INTERVAL_S = 1.0
QUIET_S = 0.05  # how often the loop polls a log that does not say when something arrives
_FORM = 1


def live_forecasts(
    operator: ForecastOperator,
    log: Log | Mapping[str, Log],
    give: Callable[[pa.Table], None],
    *,
    state: Path | None = None,
    interval_s: float = INTERVAL_S,
    once: bool = False,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda text: None,
    clock: Clock = SYSTEM,
) -> int:
    """Gives the forecasts at each event of a log as it arrives, until it is stopped; with `once`, of all that is there.

    Where the patterns read several streams, `log` maps their names to logs. `operator` is `patterns.forecaster(…)`. The
    file `state` is continued where it exists, and written at most every `interval_s` and at the end. Returns the number
    of forecasts.
    """
    stop = stop or threading.Event()
    patterns: Any = operator.patterns
    inputs = Inputs(log if isinstance(log, Mapping) else dict.fromkeys(patterns.by_stream, log))
    log = inputs.log
    taken = _taken_up(state, operator)
    log.resume(taken)
    try:
        types = inputs.find_types(patterns, pa.schema([]), once, stop, say)
        if types is None:
            return 0
        for name, schema in types.bound.items():
            operator.bind(schema, name)
        followed: set[str] = set()
        arrived = threading.Event()
        is_woken = log.wake(arrived)
        n_rows, kept_s, is_kept = 0, clock.steady_s(), True
        while True:
            latest, begins = log.latest(), log.earliest()
            if operator.has_clock and not followed.issuperset(latest):
                followed.update(latest)
                for name in inputs.logs:
                    operator.follow(inputs.of_stream(name, latest), stream=name)
            for partition, end in sorted(latest.items()):
                start = taken.get(partition, begins.get(partition, 0))
                if start >= end:
                    continue
                of = partition if operator.has_clock else None
                for block in inputs.read(OffsetRange(partition, start, end), types):
                    for batch in block.batches:
                        n_rows += _given(operator.feed(batch, inputs.stream_of(partition), of), give)
                        operator.aside.clear()
                taken[partition] = end
                is_kept = False
            ended = once or stop.is_set()
            if log.ends() == taken:
                ended, is_kept = True, False
                n_rows += _given(operator.finish(), give)
            if state is not None and not is_kept and (ended or clock.steady_s() - kept_s >= interval_s):
                write_whole(state, _packed(taken, operator.save()))
                kept_s, is_kept = clock.steady_s(), True
            if ended:
                return n_rows
            arrived.wait(INTERVAL_S if is_woken else QUIET_S)
            arrived.clear()
    finally:
        log.close()


def _given(rows: pa.Table, give: Callable[[pa.Table], None]) -> int:
    """Gives rows, where there are any; returns how many."""
    if rows.num_rows:
        give(rows)
    return int(rows.num_rows)


def _packed(taken: Offsets, saved: bytes) -> bytes:
    return json.dumps({"form": _FORM, "taken": taken}).encode() + b"\n" + saved


def _taken_up(state: Path | None, operator: ForecastOperator) -> Offsets:
    """The offsets that an earlier run has kept, whose state the operator continues; none where there was no run."""
    if state is None or not state.exists():
        return {}
    head, _, saved = state.read_bytes().partition(b"\n")
    try:
        told = json.loads(head)
        taken = {str(partition): int(offset) for partition, offset in told["taken"].items()}
        is_ours = told["form"] == _FORM
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError("this file keeps no forecasts of a live stream", str(state)) from error
    if not is_ours:
        raise DataError("this file was kept by another release", str(state), hint="begin anew with another file")
    operator.restore(saved)
    return taken
