"""The libraries over real data become a table of the documentation: what each pattern finds, in each data set.

    python -m tools.library_table            # writes the tables into docs/patterns.md; needs ../shared/data

The converters read the files as they are published, patterns whose columns they lack are left out, and the
ports, the coast and the parks are given as `--places`. A test compares the page with what this would write, and others
compare what is found with formulas that know nothing of automata.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

import wayeb_py
from wayeb_py.providers.event_sources import find_provider_files, open_source, shared_schema
from wayeb_py.run.skipped_patterns import leave_out_missing

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared/data"
PAGE = ROOT / "docs/patterns.md"
BEGIN, END = "<!-- made by python -m tools.library_table -->", "<!-- until here -->"
COAST = SHARED / "coast/ne_50m_coastline.geojson"
PARKS = SHARED / "coast/ne_10m_parks_and_protected_lands_area.geojson"
PORTS = SHARED / "ports/WorldPortIndex_UpdatedPub150.csv"
AROUND_DEG = 1.0  # ports within this distance of the events are among the places


@dataclass(frozen=True)
class DataSet:
    """Events of a provider, and the library that is for their kind."""

    name: str
    library: str
    path: Path
    provider: str


SETS = (
    DataSet("Solent", "maritime", SHARED / "solent/SolentAIS_20160112_130211.csv", "csv"),
    DataSet("New York", "maritime", SHARED / "noaa_ny_harbor/NYHarbor_2020_06_30_first_hour.csv", "noaa"),
    DataSet("Virginia", "maritime", SHARED / "noaa_ny_harbor/virginia_beach_2020_06_04_to_06.parquet", "csv"),
    DataSet("Austin", "fleet", SHARED / "austin_buses/positions_all_days.parquet", "gtfs"),
)


@cache
def events_of(data_set: DataSet) -> pa.Table:
    """The events as `wayeb data convert` gives them."""
    files = find_provider_files([data_set.path], data_set.provider)
    sources = [open_source(file, data_set.provider) for file in files]
    schema = shared_schema(sources)
    batches = [batch for source in sources for block in source.blocks() for batch in block.batches]
    return pa.Table.from_batches(batches, schema)


@cache
def ports_around(data_set: DataSet) -> dict[str, tuple[float, float]]:
    """The ports of the World Port Index around the events, by name; the first of two that share a name."""
    events = events_of(data_set)
    lon, lat = (events[name].to_numpy() for name in ("lon", "lat"))
    table = pcsv.read_csv(PORTS)
    found: dict[str, tuple[float, float]] = {}
    columns = (table[name].to_pylist() for name in ("Main Port Name", "Longitude", "Latitude"))
    for name, x, y in zip(*columns, strict=True):
        near_x = np.nanmin(lon) - AROUND_DEG <= x <= np.nanmax(lon) + AROUND_DEG
        if near_x and np.nanmin(lat) - AROUND_DEG <= y <= np.nanmax(lat) + AROUND_DEG:
            found.setdefault(name, (x, y))
    return found


def compile_for(data_set: DataSet, file: Path, folder: Path) -> wayeb_py.Patterns:
    """A library's file with the real places around the events, as far as it declares them."""
    from wayeb_py.cli.pattern_files import declared_places

    folder.mkdir(parents=True, exist_ok=True)
    if data_set.library == "fleet":
        return wayeb_py.compile(file)
    ports = folder / f"{data_set.name} ports.csv"
    rows = [f'"{name}",{lon},{lat}' for name, (lon, lat) in ports_around(data_set).items()]
    ports.write_text("\n".join(["name,lon,lat", *rows]) + "\n")
    places = {"port": ports, "coast": COAST, "protected_area": PARKS}
    declared = declared_places(file)
    return wayeb_py.compile(file, places={name: path for name, path in places.items() if name in declared})


def count(data_set: DataSet, whole: wayeb_py.Patterns) -> dict[str, int | None]:
    """The detections of each pattern; None for one whose columns the events lack."""
    patterns, lacking = leave_out_missing(whole, events_of(data_set).column_names)
    found = patterns.recognise(events_of(data_set)).counts()
    return {name: None if name in lacking else found.get(name, 0) for name in whole.names}


@cache
def count_of_library(data_set: DataSet) -> dict[str, int | None]:
    """The detections of each pattern of the library."""
    with tempfile.TemporaryDirectory() as folder:
        return count(data_set, compile_for(data_set, ROOT / f"patterns/{data_set.library}.sre", Path(folder)))


def render() -> str:
    """The tables."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for library in ("maritime", "fleet"):
        sets = [data_set for data_set in SETS if data_set.library == library]
        counts = [count_of_library(one) for one in sets]
        yield f"| {library} | " + " | ".join(one.name for one in sets) + " |"
        yield "| --- |" + " ---: |" * len(sets)
        for title, key in (("events", None), ("entities", 0)):
            numbers = [
                events_of(one).num_rows if key is None else len(events_of(one).column(0).unique()) for one in sets
            ]
            yield f"| *{title}* | " + " | ".join(f"{number:,}" for number in numbers) + " |"
        for name in counts[0]:
            cells = [f"{found:,}" if (found := one[name]) is not None else "–" for one in counts]
            yield f"| `{name}` | " + " | ".join(cells) + " |"
        yield ""


def placed(page: str, tables: str) -> str:
    """The page with the tables between their marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(placed(PAGE.read_text(), render()))
