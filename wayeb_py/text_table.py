"""Rows of texts become lines with their columns one below the other, for summaries on a terminal and in a log.

*Not taken*: rich's tables, which wrap to a terminal's width that a log does not have, and whose import would lengthen
every run by tens of milliseconds for a dozen lines. Moving output (progress, the screen of a stream) is drawn by rich.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from wayeb_py.errors import visible


def table(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> str:
    """The rows as lines; columns are as wide as their widest text, and `right` ones are aligned to the right."""
    shown = [[visible(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        cells = (
            text.rjust(width) if number in right else text.ljust(width)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
