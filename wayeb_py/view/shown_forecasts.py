"""A file of forecasts becomes the shaded bars of the timeline: entity, pattern, from when to when, how likely.

A forecast that has no interval in time is not drawn; one of a pair is drawn for both. Where there are more than a page
can show, the likeliest stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.view.tracks import seconds_of, texts_of

MOST_FORECASTS = 5_000
COLUMNS = ("pattern", "entity", "ts", "probability", "from", "until")


def forecasts_of(
    table: pa.Table, time_unit: str | None, entities: Sequence[str], patterns: Sequence[str], most: int = MOST_FORECASTS
) -> tuple[dict[str, Any], list[str]]:
    """What the page draws of the forecasts, by columns, and notes on those that are left out."""
    lacking = [name for name in COLUMNS if name not in table.column_names]
    if not table.num_rows:
        return {"entity": [], "pattern": [], "from": [], "until": [], "probability": []}, []
    if lacking:
        raise DataError(
            f"this is no file of forecasts: it has no column {', '.join(f'`{name}`' for name in lacking)}",
            hint="`wayeb forecast FILE --model DIR --data EVENTS --out soon.parquet` writes one",
        )
    if "other" in table.column_names:
        of_pairs = table.filter(table.column("other").is_valid())
        table = pa.concat_tables([table, of_pairs.set_column(
            of_pairs.schema.get_field_index("entity"), "entity", of_pairs.column("other")
        )])  # fmt: skip
    number_of = {name: number for number, name in enumerate(entities)}
    pattern_of = {name: number for number, name in enumerate(patterns)}
    begin, end = (seconds_of(table.column(name), time_unit) for name in ("from", "until"))
    who, of = (texts_of(table.column(name)).to_pylist() for name in ("entity", "pattern"))
    probability = table.column("probability").to_numpy().astype(np.float64)
    drawn = [
        row
        for row in range(table.num_rows)
        if who[row] in number_of and of[row] in pattern_of and not np.isnan(begin[row]) and not np.isnan(end[row])
    ]
    notes = []
    if len(drawn) > most:
        notes.append(f"{most:,} of {len(drawn):,} forecasts are shown: the likeliest.")
        drawn = sorted(sorted(drawn, key=lambda row: -probability[row])[:most])
    return {
        "entity": [number_of[str(who[row])] for row in drawn],
        "pattern": [pattern_of[str(of[row])] for row in drawn],
        "from": [float(begin[row]) for row in drawn],
        "until": [float(end[row]) for row in drawn],
        "probability": [round(float(probability[row]), 4) for row in drawn],
    }, notes


def patterns_forecast(table: pa.Table | None) -> list[str]:
    """The patterns that have forecasts."""
    if table is None or not table.num_rows or "pattern" not in table.column_names:
        return []
    return sorted(set(texts_of(table.column("pattern")).to_pylist()))
