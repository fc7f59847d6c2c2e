"""Hyperscan over events encoded as text (`events_as_text`): one database, one scan, every end reported.

It reports as we do: an expression matches wherever some match ends. It has no look-around, so the complement
and the intersection of `CalmTrip` were multiplied out by hand into the expression of their automaton. Windows of time
have no form: the only start that it can report is the leftmost, and a window needs the latest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.inputs.events_as_text import encode, spell
from benchmarks.peers.peer import Form
from benchmarks.peers.peer_process import NEEDED, answer

FORM = Form(
    "hyperscan",
    "Hyperscan",
    "in_hyperscan",
    "expressions over encoded events, in one database",
    needs=("hyperscan",),
    cannot={"Towed": "no time; only a match's leftmost start can be had, and a window asks for the latest"},
    written=("../inputs/events_as_text.py", "in_hyperscan.py"),
)

# After three events that are not off: nothing begun, just fast, or fast and then slow; and how each may go on.
# lines: CalmTrip
F, S, N, ANY = "<fast&unoff>", "<slow&unoff>", "<unfast&unslow&unoff>", "<unoff>"
IDLE = f"(?:{S}|{N}|{F}+{S}*{N})*(?:{F}+{S}*)?"
BODY = (
    f"(?:(?:{ANY}{ANY}{N}|{ANY}{N}{S}|(?:{N}|{S}){S}{S}){IDLE}"
    f"|(?:(?:{N}|{S}){ANY}{F}|{ANY}(?:{N}|{F}){F}){F}*{S}*(?:{N}{IDLE})?"
    f"|(?:{ANY}{F}{S}|{F}{S}{S}){S}*(?:{N}{IDLE})?)"
)
# lines: end
FORWARD = {
    # lines: six
    "Route": "<off><moving>+<off>",
    "ParkedMovingSwing": "<parked><moving><parked><moving>",
    "IdleParkedSwing": "<idle><parked><idle><parked>",
    "SpeedSwing": "<fast><still><fast><still>",
    "MovingWithZeroSpeed": "<zero_speed>{3}",
    "MovingWithBadSignal": "<bad_signal>{3}",
    # lines: StopAndGo
    "StopAndGo": "(?:<fast><slow>+){2}",
    # lines: Legs
    "Legs": "<parked>(?:<moving><idle>?<moving>|<idle>{3})+<parked>",
    # lines: CalmTrip
    "CalmTrip": f"<off>{BODY}<off>",
    # lines: end
}


def main() -> None:
    import hyperscan

    # lines: six
    databases: dict[tuple[str, ...], Any] = {}  # compiled once: a pass that counts finds it here

    def recognise(events: pa.Table, names: tuple[str, ...]) -> pa.Table:
        encoded = encode(events, [FORWARD[name] for name in names])
        expressions = [spell(FORWARD[name], encoded.classes) for name in names]
        key = tuple(map(repr, expressions))
        if key not in databases:
            databases[key] = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            databases[key].compile(
                expressions=expressions,
                ids=list(range(len(names))),
                elements=len(names),
                flags=[hyperscan.HS_FLAG_DOTALL] * len(names),
            )
        database = databases[key]
        pattern: list[int] = []
        end: list[int] = []

        def note(number: int, _begin: int, after: int, _flags: int, _context: Any) -> None:
            pattern.append(number)
            end.append(after - 1)

        database.scan(encoded.text, match_event_handler=note)
        rows = encoded.row[np.array(end, np.int64)]
        at = events.select(["vehicle_id", "ts"]).take(pa.array(rows)).rename_columns(["entity", "ts"])
        return at.append_column("pattern", pa.array(names).take(pa.array(pattern, pa.int64())))

    # lines: end
    answer(lambda path: pq.read_table(path, columns=NEEDED).combine_chunks(), recognise)


if __name__ == "__main__":
    main()
