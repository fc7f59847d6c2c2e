"""A stream block becomes the facts about its events: key, time, position, motion, attributes, and order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.node import NOWHERE
from wayeb_py.dsl.semantics.names import DeclaredNames
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import UNITS, describe_dimension, wrong_duration
from wayeb_py.errors import Note, SourceText, Span

_LINE_NAMES: dict[type, str] = {
    t.Key: "key", t.Time: "time", t.Position: "position", t.Motion: "motion",
    t.Order: "order", t.Lateness: "lateness",
    t.Forget: "forget after", t.Dedupe: "dedupe", t.Clean: "clean", t.Replace: "replace",
}  # fmt: skip


def read_streams(
    gathered: DeclaredNames, report: Diagnostics, key: str | None, time: str | None, time_unit: str | None
) -> list[tuple[m.Stream, dict[str, m.Attribute]]]:
    """The streams, each with the attributes that are known by name; what the caller gives overrides a single block."""
    blocks: dict[str, tuple[t.Stream, SourceText]] = {}
    for stream, source in gathered.streams:
        known = blocks.setdefault(stream.name, (stream, source))
        # Files that are read together may repeat the same block.
        if known[0] is not stream and (known[1] == source or known[0] != stream):
            note = Note(known[1], known[0].name_span, "declared first here")
            report.error(
                source, f"the stream `{stream.name}` is declared twice", stream.name_span, "a second time", note=note
            )
    if len(blocks) > 1:
        return [_read_stream(stream, source, report, None, None, None) for stream, source in blocks.values()]
    for stream, source in blocks.values():
        return [_read_stream(stream, source, report, key, time, time_unit)]
    return [_read_stream(None, SourceText("", ""), report, key, time, time_unit)]


def _read_stream(
    stream: t.Stream | None,
    source: SourceText,
    report: Diagnostics,
    key: str | None,
    time: str | None,
    time_unit: str | None,
) -> tuple[m.Stream, dict[str, m.Attribute]]:
    lines: dict[type, Any] = {}
    attributes: dict[str, m.Attribute] = {}
    if stream is not None:
        lines = _lines(stream, source, report, attributes)
        if stream.span != NOWHERE:  # the older form has no block to report
            _check_presence(stream, source, report, lines, key, time)
        _check_position(source, report, lines, attributes)
        _check_motion(source, report, lines, attributes)
    found_time = lines.get(t.Time)
    position = lines.get(t.Position)
    motion = lines.get(t.Motion)
    made = m.Stream(
        name=None if stream is None else stream.name,
        key=key or _column(lines.get(t.Key)),
        time=time or _column(found_time),
        time_unit=cast(Any, time_unit or (found_time.unit if found_time is not None and time is None else None)),
        position=(position.lon, position.lat) if position is not None else None,
        motion=(motion.speed, motion.course) if motion is not None else None,
        order=_column(lines.get(t.Order)),
        lateness_s=_seconds(lines.get(t.Lateness)),
        forget_after_s=_seconds(lines.get(t.Forget)),
        dedupe=t.Dedupe in lines,
        clean=lines[t.Clean].what if t.Clean in lines else None,
        attributes=tuple(attributes.values()),
        replaces=t.Replace in lines,
    )
    known = _roles(made)
    for name, attribute in attributes.items():
        role = known.get(name)
        # The lines `time` and `position` give the unit of their columns.
        known[name] = attribute if role is None or attribute.unit is not None else _with_unit(attribute, role)
    return made, known


def _check_motion(
    source: SourceText, report: Diagnostics, lines: dict[type, Any], attributes: dict[str, m.Attribute]
) -> None:
    """Speed is a number in a unit of speed, course one in degrees: values computed from them have units too."""
    motion = lines.get(t.Motion)
    if motion is None:
        return
    for column, wanted, example, span in (
        (motion.speed, UNITS["m/s"], "kn", motion.span),
        (motion.course, UNITS["deg"], "deg", motion.course_span),
    ):
        declared = attributes.get(column)
        unit = None if declared is None or declared.unit is None else UNITS[declared.unit]
        if unit is not None and unit.dimension == wanted.dimension:
            continue
        if column == motion.course and declared is not None and declared.kind == "number" and unit is None:
            continue  # bearings are in degrees
        what = "the speed" if column == motion.speed else "the course"
        is_what = describe_dimension(wanted)
        label = f"not {is_what}" if unit is not None else "its unit is not declared"
        report.error(
            source,
            f"{what} of `motion` is {is_what} with its unit",
            declared.span if declared is not None else span,
            label,
            f"write a line `attr {column} number in {example}`",
        )


def _with_unit(attribute: m.Attribute, role: m.Attribute) -> m.Attribute:
    return m.Attribute(attribute.name, attribute.kind, role.unit if attribute.kind == "number" else None)


def _roles(stream: m.Stream) -> dict[str, m.Attribute]:
    """The columns that are known without an `attr` line."""
    known: dict[str, m.Attribute] = {}
    for column in (stream.key, stream.order):
        if column is not None:
            known[column] = m.Attribute(column, None)
    for column in stream.position or ():
        known[column] = m.Attribute(column, "number", "deg")
    if stream.time is not None:
        unit = stream.time_unit
        known[stream.time] = m.Attribute(stream.time, "number" if unit else "time", unit)
    return known


def _column(line: Any) -> str | None:
    return None if line is None else line.column


def _seconds(line: Any) -> Fraction | None:
    if line is None or line.duration.unit is None:
        return None
    duration: t.Number = line.duration
    return duration.value * UNITS[duration.unit or "s"].factor


def _lines(
    stream: t.Stream, source: SourceText, report: Diagnostics, attributes: dict[str, m.Attribute]
) -> dict[type, Any]:
    lines: dict[type, Any] = {}
    attr_spans: dict[str, Span] = {}
    for line in stream.lines:
        if isinstance(line, t.Attr):
            if line.name in attr_spans:
                note = Note(source, attr_spans[line.name], "declared first here")
                report.error(
                    source, f"the attribute `{line.name}` is declared twice", line.span, "a second time", note=note
                )
                continue
            attr_spans[line.name] = line.span
            attributes[line.name] = m.Attribute(line.name, line.kind, line.unit, span=line.span)
            continue
        if isinstance(line, (t.Lateness, t.Forget)):
            duration = line.duration
            wrong = wrong_duration(_LINE_NAMES[type(line)], duration.literal, duration.unit)
            if wrong is not None:
                report.error(source, wrong.message, duration.span, wrong.label, wrong.hint)
                continue
        if type(line) in lines:
            note = Note(source, lines[type(line)].span, "the first one is here")
            report.error(
                source,
                f"the stream block has two lines `{_LINE_NAMES[type(line)]}`",
                line.span,
                "a second one",
                note=note,
            )
            continue
        lines[type(line)] = line
    return lines


def _check_position(
    source: SourceText, report: Diagnostics, lines: dict[type, Any], attributes: dict[str, m.Attribute]
) -> None:
    position = lines.get(t.Position)
    for column in (position.lon, position.lat) if position is not None else ():
        declared = attributes.get(column)
        if declared is not None and declared.kind != "number":
            report.error(
                source, f"the position `{column}` is not a number", declared.span, "declared so here", "write `number`"
            )


def _check_presence(
    stream: t.Stream, source: SourceText, report: Diagnostics, lines: dict[type, Any], key: str | None, time: str | None
) -> None:
    for kind, given, example in ((t.Key, key, "key vehicle_id"), (t.Time, time, "time ts")):
        if kind not in lines and given is None:
            word = _LINE_NAMES[kind]
            report.error(
                source,
                f"the stream block does not say which column is the {word}",
                stream.name_span,
                f"no line `{word}` in its block",
                f"write a line such as `{example}`",
            )
