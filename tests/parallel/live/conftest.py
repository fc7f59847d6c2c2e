"""Events of cars and a folder with their files, for tests of live streams."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.parallel.car_events import add_file, make_events


@pytest.fixture
def events() -> pa.Table:
    return make_events(600)


@pytest.fixture
def source(tmp_path: Path, events: pa.Table) -> Path:
    """The events in three files for each of two partitions."""
    for number in range(3):
        add_file(events.slice(200 * number, 200), tmp_path / "in", f"{number}")
    return tmp_path / "in"
