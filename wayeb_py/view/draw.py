"""Detections, events and patterns become a page on the disk: `wayeb map`, and `wayeb run --map`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.dsl import meaning as m
from wayeb_py.files.read import column_names
from wayeb_py.files.write import WholeFile
from wayeb_py.patterns import Need
from wayeb_py.view.found import episodes_of
from wayeb_py.view.layout import find_layout
from wayeb_py.view.page import render_page
from wayeb_py.view.places import places_of
from wayeb_py.view.reasons import reasons_of
from wayeb_py.view.scene import Json, build_scene
from wayeb_py.view.tracks import read_events, tracks_of

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns

MOST_ATTRIBUTES = 8


def draw_map(
    found: pa.Table,
    paths: Sequence[str | os.PathLike[str]],
    out: Path,
    *,
    patterns: Patterns | None = None,
    stream: m.Stream | None = None,
    position: tuple[str, str] | None = None,
    title: str = "wayeb",
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> Json:
    """Writes the map of detections or episodes and the events they are in; gives the scene that it shows."""
    given = patterns.meaning.stream if patterns is not None else stream or m.Stream()
    columns = column_names(paths)
    layout = find_layout(given, columns, position)
    attributes = _attributes(patterns, layout, columns)
    needs = [Need(attribute.name, attribute.kind, "attribute") for attribute in attributes]
    if patterns is not None:
        needs = [need for need in patterns.needs if need.column in columns and need.role == "attribute"] + needs
    events = read_events(paths, layout, needs, None, since_s, until_s)
    tracks = tracks_of(events, layout, attributes)
    places, notes = ([], []) if patterns is None else places_of(patterns, tracks)
    episodes = episodes_of(found, layout.time_unit)
    scene, drawn = build_scene(title, tracks, episodes, places, _texts(patterns))
    scene["notes"] += notes
    if patterns is not None and all(need.column in columns for need in patterns.needs):
        scene["why"] = reasons_of(patterns, events, drawn)
    page = WholeFile(out)
    try:
        page.write(render_page(scene).encode())
        page.commit()
    finally:
        page.discard()
    return scene


def _attributes(patterns: Patterns | None, layout: m.Stream, columns: Sequence[str]) -> list[m.Attribute]:
    """What to show of an event: what the patterns look at, or else the first columns there are."""
    taken = {layout.key, layout.time, *(layout.position or ())}
    declared = {attribute.name: attribute for attribute in layout.attributes}
    if patterns is not None:
        names = [need.column for need in patterns.needs if need.role in ("attribute", "emit")]
    else:
        names = list(columns)
    chosen = [name for name in dict.fromkeys(names) if name not in taken and name in columns][:MOST_ATTRIBUTES]
    return [declared.get(name) or m.Attribute(name, None) for name in chosen]


def _texts(patterns: Patterns | None) -> dict[str, str]:
    """Each pattern as its file writes it."""
    if patterns is None:
        return {}
    return {pattern.name: pattern_text(pattern) for pattern in patterns.meaning.patterns}


def pattern_text(pattern: m.Pattern) -> str:
    """The regex of a pattern as it was written, on one line."""
    span = pattern.regex.span
    return " ".join(pattern.source.text[span.start : span.end].split())
