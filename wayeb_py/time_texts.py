"""Texts become exact times: a duration such as `10min`, an instant such as `2016-01-12T13:00:00Z`.

A ValueError says what was expected.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction

_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)\s*")
_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?\s*")
_FRACTION = re.compile(r"([.,]\d+)")


def read_duration_s(text: str) -> Fraction:
    """Seconds of `10min`, `1.5 h`, `30 s`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is not a duration; write a number with its unit, such as 30s, 10min, 2h or 1d")
    from wayeb_py.dsl.units import TOO_LONG_S  # for start-up time

    found_s = Fraction(match[1]) * _SECONDS[match[2]]
    if found_s >= TOO_LONG_S:
        raise ValueError(f"`{text}` is too long; a duration is less than {TOO_LONG_S:,} s, some 30,000 years")
    return found_s


def read_instant_s(text: str, time_unit: str | None) -> Fraction:
    """Seconds since 1970 UTC of an ISO 8601 time, which without a zone is UTC, or of a number in the stream's unit."""
    if _NUMBER.fullmatch(text):
        if time_unit is None:
            raise ValueError(
                f"`{text}` is a number, and the stream's time is not; write a time such as 2016-01-12T13:00:00Z"
            )
        return Fraction(text.strip()) * _SECONDS[time_unit]
    fraction = _FRACTION.search(text)
    try:
        # The fraction is read exactly: a datetime would cut it at microseconds.
        instant = datetime.fromisoformat(_FRACTION.sub("", text.strip(), count=1) if fraction else text.strip())
    except ValueError:
        raise ValueError(f"`{text}` is not a time; write one such as 2016-01-12, or 2016-01-12T13:00:00Z") from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    since_epoch = instant - datetime(1970, 1, 1, tzinfo=UTC)
    whole_s = since_epoch.days * 86400 + since_epoch.seconds
    return Fraction(whole_s) + (Fraction("0" + fraction[1].replace(",", ".")) if fraction else 0)
