"""Reading ahead: in order, bounded, and stopped when no more is wanted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from wayeb_py.errors import DataError
from wayeb_py.files.prefetch import in_background, in_order


def test_results_come_in_the_order_of_the_calls_whichever_is_done_first() -> None:
    second_done = threading.Event()

    def first() -> int:
        assert second_done.wait(10)
        return 1

    def second() -> int:
        second_done.set()
        return 2

    assert list(in_order([first, second, lambda: 3], threads=2)) == [1, 2, 3]


def test_what_fails_in_the_background_fails_in_front() -> None:
    def items() -> Any:
        yield 1
        raise DataError("the disk is on fire")

    taken = in_background(items())
    assert next(taken) == 1
    with pytest.raises(DataError, match="on fire"):
        next(taken)


def test_reading_ahead_is_bounded_and_stops_when_no_more_is_wanted() -> None:
    made = []

    def items() -> Any:
        for i in range(1000):
            made.append(i)
            yield i

    taken = in_background(items(), ahead=2)
    assert next(taken) == 0
    taken.close()  # type: ignore[attr-defined]
    assert len(made) <= 5
    assert not [thread for thread in threading.enumerate() if thread.name == "wayeb-read"]
