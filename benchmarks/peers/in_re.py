"""Python's `re` over events encoded as text (`events_as_text`).

`finditer` gives matches that do not overlap and cannot report every end. So it reads the text backwards: a match
begins at a detection's last event, which is all that it consumes; look-ahead covers the rest. That gives every end, and
lazy iteration the latest start, which a window needs. `re` knows no time: the window of `Towed` is checked afterwards,
in Python. Complement becomes a negative look-ahead at every step, which works since the forbidden part cannot reach
beyond the body.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.inputs.events_as_text import encode, spell
from benchmarks.peers.peer import Form
from benchmarks.peers.peer_process import NEEDED, answer

FORM = Form(
    "re",
    "Python re",
    "in_re",
    "expressions read backwards over encoded events; the window by hand",
    written=("../inputs/events_as_text.py", "in_re.py"),
)

BACKWARDS = {
    # lines: six
    "Route": "<off>(?=<moving>+<off>)",
    "ParkedMovingSwing": "<moving>(?=<parked><moving><parked>)",
    "IdleParkedSwing": "<parked>(?=<idle><parked><idle>)",
    "SpeedSwing": "<still>(?=<fast><still><fast>)",
    "MovingWithZeroSpeed": "<zero_speed>(?=<zero_speed>{2})",
    "MovingWithBadSignal": "<bad_signal>(?=<bad_signal>{2})",
    # lines: StopAndGo
    "StopAndGo": "<slow>(?=<slow>*<fast><slow>+<fast>)",
    # lines: Legs
    "Legs": "<parked>(?=(?:<moving><idle>?<moving>|<idle>{3})+<parked>)",
    # lines: CalmTrip
    "CalmTrip": "<off>(?=<unoff>{3})(?=(?:(?!<fast&unoff><slow&unoff>+<fast&unoff>)<unoff>)*<off>)",
    # lines: Towed
    "Towed": "<towed>(?=(<untowed>*?<fast><unfast>*?<parked>))",
    # lines: end
}
# lines: Towed
WITHIN_MS = {"Towed": 2 * 60 * 60 * 1000}
# lines: six


def recognise(events: pa.Table, names: tuple[str, ...]) -> pa.Table:
    encoded = encode(events, [BACKWARDS[name] for name in names], backwards=True)
    ts = events["ts"].cast(pa.int64()).to_numpy()
    found = []
    for name in names:
        matches = re.finditer(spell(BACKWARDS[name], encoded.classes), encoded.text, re.DOTALL)
        # lines: Towed
        if name in WITHIN_MS:
            matches = (
                match
                for match in matches
                if ts[encoded.row[match.start()]] - ts[encoded.row[match.end(1) - 1]] <= WITHIN_MS[name]
            )
        # lines: six
        rows = encoded.row[np.fromiter((match.start() for match in matches), np.int64)]
        at = events.select(["vehicle_id", "ts"]).take(pa.array(rows))
        found.append(
            at.rename_columns(["entity", "ts"]).append_column("pattern", pa.array([name] * len(rows), pa.string()))
        )
    return pa.concat_tables(found)


# lines: end
if __name__ == "__main__":
    answer(lambda path: pq.read_table(path, columns=NEEDED).combine_chunks(), recognise)
