"""The texts of options become values, or a message about the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wayeb_py.cli.exit_codes import misuse

if TYPE_CHECKING:
    from wayeb_py.dsl.rules import Level
    from wayeb_py.files.output.set_aside import BadLimit
    from wayeb_py.parallel.stream.endpoints import JournalOptions

_WAS_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/(?P<rest>.*)", re.DOTALL)  # `Path` joins slashes


def read_duration(text: str | None, option: str | None = None) -> Fraction | None:
    """`10min` in seconds; the message names the option where a command takes several durations."""
    from wayeb_py.time_texts import read_duration_s

    try:
        return None if text is None else read_duration_s(text)
    except ValueError as error:
        misuse(str(error) if option is None else f"{option}: {error}")


def read_shed(text: str | None) -> dict[Level, Fraction]:
    """When events are shed, by level: `low=500ms,normal=5s`."""
    from wayeb_py.dsl.rules import LEVELS

    shed_s: dict[Level, Fraction] = {}
    for part in [] if text is None else text.split(","):
        name, _, duration = part.partition("=")
        level = next((one for one in LEVELS if one == name.strip()), None)
        if level is None:
            misuse(f"--shed: `{name}` is no level: {', '.join(LEVELS)}, as in low=500ms,normal=5s")
        after_s = read_duration(duration.strip(), "--shed")
        if level in shed_s:
            misuse(f"--shed: `{level}` comes twice: give each level once, as in low=500ms,normal=5s")
        if not after_s:
            misuse(f"--shed: `{level}` after nothing would skip every event: give a time, as in low=500ms")
        shed_s[level] = after_s
    return shed_s


def read_instant(text: str | None, unit: str | None) -> Fraction | None:
    """A time of events in seconds; a bare number has the unit of the stream."""
    from wayeb_py.time_texts import read_instant_s

    try:
        return None if text is None else read_instant_s(text, unit)
    except ValueError as error:
        misuse(str(error))


def read_bad_limit(text: str | None, option: str | None = None) -> BadLimit | None:
    """`1000` or `1%`: how many rows may be bad."""
    from wayeb_py.files.output.set_aside import BadLimit

    try:
        return None if text is None else BadLimit.parse(text)
    except ValueError as error:
        misuse(str(error) if option is None else f"{option}: {error}")


def refuse_own_journal(folder: Path | None, sources: Mapping[str, Iterable[str]]) -> None:
    """Ends the command where a stream would read the journal that it writes."""
    read = (one.removeprefix("journal:") for own in sources.values() for one in own if one.startswith("journal:"))
    if folder is not None and any(Path(one).resolve().is_relative_to(folder.resolve()) for one in read):
        misuse(f"--journal {folder} is also read as a source: keep what is received in a folder of its own")


def read_journal(folder: Path | None, size: str | None, age: str | None) -> JournalOptions | None:
    """Where the journal keeps received events, how much and for how long."""
    if folder is None:
        given = "--journal-size" if size is not None else None if age is None else "--journal-age"
        if given is not None:
            misuse(f"{given} is for a journal, and none is kept: give --journal DIR, or leave {given} out")
        return None
    from wayeb_py.parallel.receive.journal import LEAST_BYTES
    from wayeb_py.parallel.stream.endpoints import JournalOptions

    n_bytes = None
    if size is not None:
        if re.fullmatch(r"[1-9]\d*[kmgt]", size.lower()) is None:
            misuse(f"--journal-size: `{size}` is no size: 500m, 2g")
        n_bytes = int(size[:-1]) << 10 * (1 + "kmgt".index(size[-1].lower()))
        if n_bytes < LEAST_BYTES:
            misuse(f"--journal-size: {size} is too small for a journal: {LEAST_BYTES >> 20}m is the least")
    age_s = read_duration(age, "--journal-age")
    return JournalOptions(folder.absolute(), n_bytes, None if age_s is None else float(age_s))


def refusing_addresses(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which ends with a message where a path is an address of a store.

    Typer makes a `Path` of whatever stands there, and `s3://b/x` would be a file of that name in the current folder.
    """

    @wraps(command)
    def run(**values: Any) -> None:
        for value in values.values():
            for path in _paths_in(value):
                refuse_address(path)
        command(**values)

    return run


def refuse_address(path: Path) -> None:
    """Ends the process where a path is what `Path` makes of an address."""
    found = _WAS_ADDRESS.fullmatch(str(path))
    if found is None:
        return
    from wayeb_py.files.stores import is_store  # for start-up time

    if is_store(found["scheme"]):
        misuse(
            f"`{found['scheme']}://{found['rest']}` is an address of a store, and only a path can stand there\n"
            "  = hint: addresses are for events, knowledge, facts and detections, and for the checkpoint of a stream"
        )


def _paths_in(value: object) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, list | tuple):
        yield from (one for one in value if isinstance(one, Path))
