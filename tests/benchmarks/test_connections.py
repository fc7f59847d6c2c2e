"""A line's clock starts when it is due: what its sender was made to wait counts, what it is late by itself does not."""

from __future__ import annotations

import json
import socket

import numpy as np
import pytest

from benchmarks.loads.answering import answered
from benchmarks.loads.connections import Rendered, Run, Sender, render
from benchmarks.loads.offered import offer, periodic


def test_a_sender_that_is_late_by_itself_starts_the_clock_later() -> None:
    due_us = np.array([0, 1000, 2000, 3000, 4000])
    lines = Rendered("s", due_us, b"abcde", np.arange(1, 6))
    sender = Sender(socket.socket(), lines, began_s=100.0, until_s=101.0, n_before=0)
    sender._sends = [(0, 100.0015, 100.0), (2, 100.010, 100.009)]  # the second after it was made to wait for 9 ms
    sender.n_sent = 4  # the last line was never sent
    assert sender.starts_s() == pytest.approx([0.0015, 0.0015, 0.003, 0.004, 0.004])
    sender._connection.close()


def test_all_lines_of_a_portion_have_its_answer() -> None:
    starts_s = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    run = Run([(0.15, b"1"), (0.5, b"3")], {"s": 5}, {"s": starts_s}, 0.0, 0.0)
    assert answered(run, "s", 0.1) == pytest.approx([0.05, 0.3, 0.2])


def test_events_are_sent_as_they_are_expected_to_be_found() -> None:
    """A value that is rounded when it is written could be on the other side of a threshold."""
    dice = np.random.default_rng(1)
    offered = offer("high", periodic(1000.0, 1.0, dice), dice)
    sent = [json.loads(line) for line in render(offered).data.splitlines()]
    assert sent == offered.events.to_pylist()
