"""The address of a source becomes its parts: how it is reached, in which form its lines are, and where.

-                                 lines on standard input
tcp://127.0.0.1:5000              lines on a port on which this process listens; ?connect: at which it calls
unix:/run/wayeb.sock              lines on a socket of this machine
nmea+tcp://…  nmea+udp://…        AIS sentences, by lines or by datagrams
mqtt://127.0.0.1:1883/TOPIC       messages of a broker

?format=csv                       a header, then a line an event; NDJSON unless given
?ack                              after each group of lines that are safe, their number so far goes back on a line
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from wayeb_py.errors import DataError

Kind = Literal["stdin", "tcp", "unix", "udp", "mqtt"]
Form = Literal["ndjson", "csv", "nmea"]
_SCHEME = re.compile(r"(?:nmea\+)?(?:tcp|udp|unix|mqtt):")
_FORMS: tuple[Form, ...] = ("ndjson", "csv", "nmea")
_OPTIONS = {"tcp": {"format", "connect", "ack"}, "unix": {"format", "connect", "ack"}, "udp": {"format", "ack"},
            "mqtt": {"format"}}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """A place from which events are received, or to which detections go."""

    text: str
    kind: Kind
    form: Form = "ndjson"
    host: str = ""
    port: int = 0
    path: str = ""
    connects: bool = False
    acknowledges: bool = False

    def __str__(self) -> str:
        return self.text


def is_address(text: str) -> bool:
    """Whether a source is received and not read."""
    return text == "-" or text.startswith("-?") or _SCHEME.match(text) is not None


def parse_address(text: str) -> Address:
    """The parts of an address; DataError where it is none."""
    if text == "-" or text.startswith("-?"):
        options = _options(text, text[2:], {"format"})
        return Address(text, "stdin", _form(text, options, "ndjson"))
    scheme = text.split(":", 1)[0]
    prefix, _, kind = scheme.rpartition("+")
    if kind not in ("tcp", "udp", "unix", "mqtt") or prefix not in ("", "nmea"):
        raise _no_address(text)
    parts = urlsplit(text.replace("#", "%23"))  # `ships/#` is a filter of topics, and no place in a page
    options = _options(text, parts.query, _OPTIONS[kind])
    if "@" in parts.netloc:
        raise DataError(
            "a user in an address would go nowhere: nothing here logs in", text,
            hint="leave it out, and let the other end admit this machine",
        )  # fmt: skip
    form = _form(text, options, "nmea" if prefix else "ndjson")
    if kind == "unix":
        return Address(text, "unix", form, path=unquote(parts.path), connects="connect" in options,
                       acknowledges="ack" in options)  # fmt: skip
    port = port_of(parts, text)
    if port is None and kind == "mqtt":
        port = 1883
    if not parts.hostname or port is None:
        raise _no_address(text)
    is_called, acknowledges = "connect" in options, "ack" in options
    if kind == "udp" and acknowledges:
        raise DataError(
            "datagrams cannot be acknowledged", text, hint="leave ?ack out, or receive over a connection: tcp://…?ack"
        )
    path = unquote(parts.path.lstrip("/"))
    return Address(text, cast("Kind", kind), form, parts.hostname, port, path, is_called, acknowledges)


def port_of(parts: SplitResult, text: str) -> int | None:
    """The port of an address, None where it has none; DataError where it is no port."""
    try:
        return parts.port
    except ValueError:
        written = parts.netloc.rpartition(":")[2]
        what = f"the port {written} is too large" if written.isdecimal() else f"`{written}` is no port"
        raise DataError(what, text, hint="a port is a number from 0 to 65535") from None


def _options(text: str, query: str, known: set[str]) -> dict[str, list[str]]:
    """The options after the question mark; DataError where one means nothing there."""
    options = parse_qs(query, keep_blank_values=True)
    unknown = sorted(set(options) - known)
    if unknown:
        raise DataError(
            f"`{unknown[0]}` is no option of such an address", text, hint=f"there is {' and '.join(sorted(known))}"
        )
    return options


def _form(text: str, options: dict[str, list[str]], by_default: Form) -> Form:
    asked = options.get("format", [by_default])[-1]
    if asked not in _FORMS:
        raise DataError(f"`{asked}` is no form of lines", text, hint="write format=ndjson, csv or nmea")
    return asked


def _no_address(text: str) -> DataError:
    return DataError(
        "this is no address",
        text,
        hint="write tcp://127.0.0.1:5000, unix:/path, nmea+udp://127.0.0.1:10110 or mqtt://…",
    )
