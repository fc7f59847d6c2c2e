"""The texts of `--data` become the paths of each stream that patterns read, those of `--lateness` how late each may be.

--data night.parquet                          for a file with one stream
--data vessels=ais/ --data radar=radar.csv    for a file with several, each named
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING

from wayeb_py.cli.exit_codes import misuse
from wayeb_py.cli.option_values import read_duration

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns


def read_data(patterns: Patterns, data: list[str]) -> dict[str, list[str]]:
    """The paths of each stream that patterns read; a mistake in them is an error of usage."""
    if not data and patterns.by_stream:
        misuse("there are no events: add --data PATH")
    if data and not patterns.by_stream:
        misuse(f"these rules read facts alone, and no events: leave out --data {data[0]}")
    return read_named(patterns, data, "--data", "PATH")


def read_named(patterns: Patterns, data: list[str], option: str, what: str) -> dict[str, list[str]]:
    """The values of an option that names a place for each stream, by stream."""
    names = [stream.name or "" for stream in patterns.meaning.streams]
    if not patterns.by_stream:
        return {}
    if len(names) == 1:
        return {names[0]: [_without_name(text, names[0], option) for text in data]}
    paths: dict[str, list[str]] = {}
    for text in data:
        name, sign, path = text.partition("=")
        if not sign or (name not in names and os.path.exists(text)):
            misuse(
                f"{option} {text} does not say of which stream: the file has {_listed(names)}; "
                f"write {option} {names[0]}={text}"
            )
        if name not in names:
            close = get_close_matches(name, names, n=1)
            told = f"did you mean `{close[0]}`?" if close else f"the file has {_listed(names)}"
            misuse(f"{option} {text}: no stream is called `{name}`; {told}")
        if not path:
            misuse(f"{option} {text} names no {what.lower()} after the `=`")
        paths.setdefault(name, []).append(path)
    for name in patterns.by_stream:
        if name not in paths:
            every = (*patterns.names, *patterns.rule_names)
            readers = [one for one in every if name in patterns.select([one]).by_stream]
            misuse(
                f"there are no events of the stream `{name}`, which `{readers[0]}` reads; add {option} {name}={what}"
            )
    if sum(path == "-" or path.startswith("-?") for own in paths.values() for path in own) > 1:
        misuse("standard input is that of one stream: keep the events of the others in files")
    return {name: paths[name] for name in patterns.by_stream}


def _without_name(text: str, name: str, option: str) -> str:
    """The path of a text `name=path` although the file has one stream; a path that exists is taken as it stands."""
    if os.path.exists(text):
        return text
    if name and text.startswith(f"{name}="):
        return text.removeprefix(f"{name}=")
    other, _, path = text.partition("=")
    if other.isidentifier() and (path == "-" or re.match(r"[a-z+]+:", path) or (path and os.path.exists(path))):
        only = f"one stream, `{name}`" if name else "one stream"
        misuse(f"{option} {text}: no stream is called `{other}`; the file has {only}: write {option} {path}")
    return text


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:-1]) + f" and `{names[-1]}`"


def read_lateness(texts: list[str] | None) -> Fraction | dict[str, Fraction] | None:
    """`10min` for every stream, or `vessels=10min` for one."""
    if not texts:
        return None
    named: dict[str, Fraction] = {}
    for text in texts:
        name, sign, duration = text.partition("=")
        if not sign and len(texts) > 1:
            misuse(f"--lateness {text}: of several, each says of which stream it is: --lateness vessels=10min")
        late_s = read_duration(duration if sign else text)
        assert late_s is not None
        if not sign:
            return late_s
        named[name] = late_s
    return named


def time_unit_of(patterns: Patterns) -> str | None:
    """The unit of a numeric time that all streams share; None where they differ."""
    units = {part.stream.time_unit for part in patterns.by_stream.values()}
    return units.pop() if len(units) == 1 else None
