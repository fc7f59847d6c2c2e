"""What a person at a terminal sees of a run: its progress, and its summary."""

from __future__ import annotations

import io

from rich.console import Console

from wayeb_py.run.progress import render_summary, shown
from wayeb_py.run.summary import Progress, Summary


def test_the_summary_tells_everything_that_was_not_as_usual() -> None:
    summary = Summary(
        events=1_000,
        entities=3,
        detections={"Swing": 20, "Still": 0},
        episodes=4,
        aside={"late": 2, "no key": 1},
        unreadable={"speed": {"count": 5, "example": "fast", "file": "e.csv", "row": 9}},
        duplicates=6,
        sorted_on_disk=True,
        seconds=0.5,
        out="d.csv",
        aside_file="d.csv.aside.ndjson",
    )
    assert render_summary(summary) == (
        "events              1,000  2,000/s in 0.50 s\n"
        "entities                3\n"
        "detections             20\n"
        "  Swing                20\n"
        "  Still                 0\n"
        "episodes                4\n"
        "set aside               3  d.csv.aside.ndjson\n"
        "  late                  2\n"
        "  no key                1\n"
        "unreadable values       5  taken as missing\n"
        "  speed                 5  first `fast` in e.csv, row 9\n"
        "duplicates              6  dropped\n"
        "order              sorted  the events were not in the order of time\n"
        "written to                 d.csv"
    )


def test_progress_has_events_and_only_if_it_is_shown() -> None:
    with shown(visible=False) as nobody:
        assert nobody is None
    screen = io.StringIO()
    with shown(visible=True, console=Console(file=screen, force_terminal=True, width=120)) as tell:
        assert tell is not None
        tell(Progress("recognising", 1_000, 50, 100))
        tell(Progress("recognising", 2_000, 100, 100))
    assert "recognising" in screen.getvalue()
    assert "2,000 events" in screen.getvalue()
