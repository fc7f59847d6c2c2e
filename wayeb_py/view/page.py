"""A scene becomes one HTML page that holds everything it needs: style, script and data.

The page forbids itself every request (its content security policy allows only what is inline), so it works from a
disk, in a mail, and behind a firewall. The script is several files for the reader's sake and one for the browser's.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

SCRIPTS = ("data.js", "projection.js", "world.js", "map.js", "pairs.js", "timeline.js", "panel.js", "main.js")


def render_page(scene: dict[str, Any]) -> str:
    """The page of a scene."""
    folder = files("wayeb_py.view") / "page"
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    # Inside a script element only `<` could end it, and JSON has another way to write that.
    data = json.dumps(scene, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    page = (folder / "page.html").read_text(encoding="utf-8")
    style = (folder / "page.css").read_text(encoding="utf-8")
    parts = {"TITLE": escape(scene["title"]), "STYLE": style, "SCRIPT": script, "DATA": data}
    for name, text in parts.items():
        before, after = page.split(f"%%{name}%%")
        page = before + text + after
    return page
