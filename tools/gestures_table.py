"""Gestures of people whose strokes were not learnt from become a table of the documentation: precision and recall.

    python -m tools.gestures_table        writes the table into docs/gestures.md; needs ../shared/data

The control points come from five subjects (`tools.gesture_points`), the table from the other five, 15 recordings of
each gesture. Every pattern looks at every recording, and what it finds in those of another gesture counts against it.
Naming the best of sixteen, as recognizers do, is easier and was not taken: a stream has other strokes too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import wayeb_py
from tools.gesture_events import ROOT, Stroke, read_strokes, touch_events
from tools.gesture_points import LEARNT_FROM, NAMES

PAGE = ROOT / "docs/gestures.md"
BEGIN, END = "<!-- made by python -m tools.gestures_table -->", "<!-- until here -->"
RULES = ("ZShape", "Wave", "DoubleCheck", "CrossedBox")
PATTERNS = {gesture: name.removesuffix("Points") for gesture, name in NAMES.items()}


def found_in(strokes: list[Stroke], names: Iterable[str]) -> dict[str, set[str]]:
    """The recordings in which each pattern or rule is detected."""
    patterns = wayeb_py.compile(ROOT / "patterns/gestures/gestures.sre").select(names)
    table = patterns.recognise(touch_events(strokes)).to_arrow()
    found: dict[str, set[str]] = defaultdict(set)
    for row in table.select(["pattern", "entity"]).to_pylist():
        found[row["pattern"]].add(row["entity"])
    return found


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "–"


def make_table() -> str:
    """Precision and recall by gesture, for the subjects that were not learnt from, and for the others beside them."""
    strokes = read_strokes()
    found = found_in(strokes, PATTERNS.values())
    lines = ["| gesture | pattern | precision | recall | found | of | false | taken for it |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    totals = {learnt: [0, 0, 0] for learnt in (False, True)}
    for gesture, name in PATTERNS.items():
        for learnt, total in totals.items():
            own = [one for one in strokes if (one.subject in LEARNT_FROM) == learnt]
            hits = [one for one in own if one.recording in found[name]]
            right = sum(one.gesture == gesture for one in hits)
            there = sum(one.gesture == gesture for one in own)
            total[0], total[1], total[2] = total[0] + right, total[1] + there, total[2] + len(hits)
            if not learnt:
                wrong = sorted({one.gesture.replace("_", " ") for one in hits if one.gesture != gesture})
                cells = (_share(right, len(hits)), _share(right, there), right, there, len(hits) - right)
                text = " | ".join(map(str, cells))
                lines.append(f"| {gesture.replace('_', ' ')} | `{name}` | {text} | {', '.join(wrong)} |")
    for learnt, (right, there, n_hits) in totals.items():
        who = "*those learnt from*" if learnt else "**all**"
        cells = (_share(right, n_hits), _share(right, there), right, there, n_hits - right)
        lines.append(f"| {who} | | {' | '.join(map(str, cells))} | |")
    return "\n".join(lines)


def false_alarms() -> str:
    """What the rules find in the recordings, which hold nothing that they look for."""
    strokes = read_strokes()
    found = found_in(strokes, RULES)
    told = []
    for name in RULES:
        drawn = Counter(one.gesture.replace("_", " ") for one in strokes if one.recording in found[name])
        kinds = ", ".join(f"{n} {gesture}" for gesture, n in sorted(drawn.items()))
        told.append(f"`{name}` {f'{drawn.total()} ({kinds})' if drawn else 'none'}")
    return f"False alarms of the rules in all {len(strokes)} recordings: {', '.join(told)}."


def page_with(made: str) -> str:
    """The page with this table in place of the old one."""
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def make_page() -> str:
    """The page as it should be."""
    return page_with(f"{make_table()}\n\n{false_alarms()}")


def main() -> None:
    """Writes the page."""
    PAGE.write_text(make_page())


if __name__ == "__main__":
    main()
