"""The highest rate, or speed, that a stream still holds: by steps, then by halves.

A probe is a whole run, so few of them are made: the first guess is what the stream took when it was offered too much.
"""

from __future__ import annotations

from collections.abc import Callable


def find_highest(held: Callable[[float], bool], guess: float, precision: float, step: float = 2.0) -> float:
    """The highest value that a probe held, when one higher by at most `precision` times did not.

    From the guess it goes up, or down, by steps until one is held and one is not, and halves what lies between, on a
    logarithmic scale. The search assumes that a stream that fails at one value fails above it: a disturbed probe is not
    repeated. If nothing down to a hundredth of the guess is held, it is 0.
    """
    low = high = guess
    if held(guess):
        while held(high := high * step):
            low = high
    else:
        while not held(low := low / step):
            high = low
            if low < guess / 100:
                return 0.0
    while high / low > precision:
        middle = (low * high) ** 0.5
        if held(middle):
            low = middle
        else:
            high = middle
    return low
