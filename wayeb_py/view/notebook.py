"""A map in a notebook: the page that `wayeb map` writes, in a frame of its own.

The frame holds the page itself and not its address, so that a notebook that is sent to a colleague still shows it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from wayeb_py.view.draw import write_page
from wayeb_py.view.page import render_page
from wayeb_py.view.scene import Json

HEIGHT_PX = 620


@dataclass(frozen=True)
class MapPage:
    """A map that shows itself in a notebook, and can be saved."""

    scene: Json = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page, whole or not at all."""
        write_page(self.scene, Path(path))
        return Path(path)

    @property
    def notes(self) -> list[str]:
        """What the page leaves out."""
        return list(self.scene["notes"])

    def __repr__(self) -> str:
        n, entities = len(self.scene["episodes"]["pattern"]), len(self.scene["entities"])
        return f"<map of {n} episodes, {entities} entities>"

    def _repr_html_(self) -> str:
        page = escape(render_page(self.scene), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: {HEIGHT_PX}px; border: 0"></iframe>'
