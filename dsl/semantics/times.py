"""Instants, lengths of time and time zones as they are written in patterns and tests."""

from __future__ import annotations

import difflib
import math
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from wayeb_py.dsl.units import UNITS

_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,18}))?)?[ ]?(Z|z|[+-]\d\d:?(?:\d\d)?)?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_instant(text: str) -> Fraction | None:
    """Seconds since 1970 UTC of an ISO 8601 date or time, exactly; None if the text is neither. Without a zone it is
    UTC."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    date, minutes, seconds, fraction, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z", "z") else zone
    try:
        instant = datetime.fromisoformat(f"{date}T{minutes or '00:00'}:{seconds or '00'}{zone}")
        since = instant - _EPOCH
    except (ValueError, OverflowError):
        return None
    whole = since.days * 86400 + since.seconds
    return whole + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else Fraction(0))


def instant_text(seconds: Fraction) -> str:
    """An instant as patterns write it; without the time of day at midnight."""
    whole = math.floor(seconds)
    text = (_EPOCH + timedelta(seconds=whole)).strftime("%Y-%m-%dT%H:%M:%S").removesuffix("T00:00:00")
    part = seconds - whole
    return text if not part else f"{text}{f'{float(part):.9f}'.rstrip('0')[1:]}Z"


def duration_text(seconds: Fraction) -> str:
    """A length of time in the largest unit of which it is a whole number."""
    for unit in ("d", "h", "min", "s", "ms", "us"):
        amount = seconds / UNITS[unit].factor
        if amount.denominator == 1:
            return f"{amount} {unit}"
    return f"{float(seconds * 10**9):g} ns"


def is_zone(name: str) -> bool:
    """Whether a time zone of this name exists."""
    from zoneinfo import ZoneInfo  # patterns rarely name a zone, and every command checks a file first

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def suggest_zone(name: str) -> str | None:
    """The zone that an unknown name probably means."""
    from zoneinfo import available_timezones

    zones = sorted(available_timezones())
    close = difflib.get_close_matches(name, zones, n=1, cutoff=0.6)
    by_city = [zone for zone in zones if zone.rpartition("/")[2].lower() == name.rpartition("/")[2].lower()]
    return by_city[0] if by_city else close[0] if close else None
