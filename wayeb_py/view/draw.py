"""Detections, events and patterns become a page on the disk: `wayeb map`, and `wayeb run --map`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from wayeb_py.compiler.streams import quoted
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.files.projection import Need
from wayeb_py.files.read import column_names
from wayeb_py.view.event_columns import find_layout, find_name
from wayeb_py.view.page import render_page
from wayeb_py.view.places import box_of, places_of
from wayeb_py.view.read_detections import ShownEpisode, episodes_of
from wayeb_py.view.reasons import reasons_of
from wayeb_py.view.scene import Json, build_scene
from wayeb_py.view.shown_forecasts import forecasts_of, patterns_forecast
from wayeb_py.view.shown_part import EVERYTHING, ShownPart
from wayeb_py.view.tracks import read_events, tracks_of
from wayeb_py.view.world import outline_around

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

MOST_ATTRIBUTES = 8

Patterned = TypeVar("Patterned", bound="CompiledPatterns")


def draw_map(
    found: pa.Table,
    paths: Sequence[str | os.PathLike[str]],
    out: Path,
    *,
    patterns: CompiledPatterns | None = None,
    stream: m.Stream | None = None,
    position: tuple[str, str] | None = None,
    title: str = "wayeb",
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
    name: str | None = None,
    choice: ShownPart = EVERYTHING,
    forecasts: pa.Table | None = None,
) -> Json:
    """Writes the map of detections or episodes and their events; returns the scene that it shows.

    Forecasts become shaded bars in the timeline.

    Words begin at `since_s` and end at `until_s`, as in the run that found them; `choice` is the part that the map
    shows.
    """
    if patterns is not None:
        _, patterns = patterns_of_one_stream(patterns)
    columns = column_names(paths)
    plan = _plan(columns, patterns, stream, position, name)
    episodes = choice.of_episodes(episodes_of(found, plan.layout.time_unit), _names(patterns))
    events = read_events(paths, plan.layout, plan.needs, choice.with_others(episodes), since_s, until_s)
    scene = _scene(episodes, events, columns, plan, patterns, title, choice, forecasts)
    write_page(scene, out)
    return scene


def draw_table(
    found: pa.Table, events: pa.Table, *, patterns: CompiledPatterns, title: str = "wayeb", name: str | None = None
) -> Json:
    """The scene of detections and their events, both given as tables."""
    plan = _plan(events.column_names, patterns, None, None, name)
    episodes = episodes_of(found, plan.layout.time_unit)
    return _scene(episodes, events, events.column_names, plan, patterns, title, EVERYTHING)


def patterns_of_one_stream(patterns: Patterned) -> tuple[str, Patterned]:
    """The stream that the patterns read, by its name, and the patterns as if the file had no other stream."""
    names = list(patterns.by_stream)
    if len(names) > 1:
        raise DataError(
            f"a map shows the events of one stream, and these patterns read {quoted(names)}",
            hint="choose the patterns of one of them",
        )
    if len(patterns.meaning.streams) == 1:
        return names[0], patterns
    part = patterns.by_stream[names[0]]
    meaning = replace(patterns.meaning, stream=part.stream, other_streams=())
    return names[0], replace(patterns, meaning=meaning, needs=part.needs)


def write_page(scene: Json, out: Path) -> None:
    """Puts the page of a scene in its place, whole or not at all."""
    write_whole(out, render_page(scene).encode())


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which column of the events plays which part on the map."""

    layout: m.Stream
    label: str | None
    attributes: list[m.Attribute]
    needs: list[Need]


def _plan(
    columns: Sequence[str],
    patterns: CompiledPatterns | None,
    stream: m.Stream | None,
    position: tuple[str, str] | None,
    name: str | None,
) -> _Plan:
    given = patterns.meaning.stream if patterns is not None else stream or m.Stream()
    layout = find_layout(given, columns, position)
    label = find_name(layout, columns, name)
    attributes = _attributes(patterns, layout, [column for column in columns if column != label])
    needs = [Need(attribute.name, attribute.kind, "attribute") for attribute in attributes]
    if patterns is not None:
        needs = [need for need in patterns.needs if need.column in columns and need.role == "attribute"] + needs
    if label is not None:
        needs.append(Need(label, None, "emit"))
    return _Plan(layout, label, attributes, needs)


def _names(patterns: CompiledPatterns | None) -> Sequence[str]:
    return () if patterns is None else patterns.names


def _scene(
    episodes: Sequence[ShownEpisode],
    events: pa.Table,
    columns: Sequence[str],
    plan: _Plan,
    patterns: CompiledPatterns | None,
    title: str,
    choice: ShownPart,
    forecasts: pa.Table | None = None,
) -> Json:
    tracks = choice.of_tracks(tracks_of(events, plan.layout, plan.attributes, plan.label))
    places, notes = ([], []) if patterns is None else places_of(patterns, tracks)
    outline = outline_around(box_of(tracks))
    forecast = [name for name in patterns_forecast(forecasts) if choice.patterns is None or name in choice.patterns]
    scene, drawn = build_scene(title, tracks, episodes, places, _texts(patterns), outline, forecast=forecast)
    scene["notes"] += notes
    if forecasts is not None:
        scene["forecasts"], left_out = forecasts_of(
            forecasts, plan.layout.time_unit, scene["entities"], [one["name"] for one in scene["patterns"]]
        )
        scene["notes"] += left_out
    if not len(tracks.time_s):
        scene["notes"].append("No event is in the part that was asked for.")
    if patterns is not None:
        lacking = [need.column for need in patterns.needs if need.column not in columns]
        if lacking:
            scene["notes"].append(f"No reasons are told: the events have no column {', '.join(map(_code, lacking))}.")
        else:
            scene["why"], left_out = reasons_of(patterns, events, drawn)
            scene["notes"] += left_out
            scene["whyNote"] = "The reason is not on this page; `wayeb why` tells it."
    return scene


def _code(name: str) -> str:
    return f"`{name}`"


def _attributes(patterns: CompiledPatterns | None, layout: m.Stream, columns: Sequence[str]) -> list[m.Attribute]:
    """The columns of an event that the map shows: those that the patterns read, or else the first ones."""
    taken = {layout.key, layout.time, *(layout.position or ())}
    declared = {attribute.name: attribute for attribute in layout.attributes}
    if patterns is not None:
        names = [need.column for need in patterns.needs if need.role in ("attribute", "emit")]
    else:
        names = list(columns)
    chosen = [name for name in dict.fromkeys(names) if name not in taken and name in columns][:MOST_ATTRIBUTES]
    return [declared.get(name) or m.Attribute(name, None) for name in chosen]


def _texts(patterns: CompiledPatterns | None) -> dict[str, str]:
    """Each pattern as its file writes it."""
    if patterns is None:
        return {}
    return {pattern.name: pattern.text for pattern in patterns.meaning.patterns}
