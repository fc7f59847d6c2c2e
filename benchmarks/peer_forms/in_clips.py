"""CLIPS, by clipspy: forward-chaining rules (in_clips.clp) over one fact an event.

The facts are asserted by CLIPS's own reader from text, which is several times faster than a call from Python for each;
the text is made before the clock starts. It is given vehicle by vehicle, each forgotten before the next: in one network
with all events the same rules only become slower. CLIPS has no iteration, complement, policy or window over events: all
of these are automata that were built by hand and stepped by rules, which is why it can say everything here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peer_forms.answering import NEEDED, answer
from benchmarks.peer_forms.form import HERE, SIX, Form, section

FORM = Form(
    "clips",
    "CLIPS",
    "in_clips",
    "rules over facts; automata by hand",
    needs=("clips",),
    written=("in_clips.clp", "in_clips.py"),
)


# lines: six
def as_facts(path: Path) -> list[str]:
    """The facts of each vehicle, as text; a number of its own for each event, in the order of time."""
    table = pq.read_table(path, columns=NEEDED)
    table = table.set_column(1, "ts", table["ts"].cast(pa.int64()))
    table = table.take(np.argsort(table["vehicle_id"].to_numpy(), kind="stable"))
    facts: dict[int, list[str]] = {}
    last: dict[str, Any] = {"vehicle_id": None}
    for number, row in enumerate(table.to_pylist(), start=1):
        same = row["vehicle_id"] == last["vehicle_id"]
        elapsed = row["ts"] - last["ts"] if same else "none"
        speed, satellites = (row[name] if row[name] is not None else "none" for name in ("speed", "satellites"))
        facts.setdefault(row["vehicle_id"], []).append(
            f"(event (id {number}) (before {number - 1 if same else 0}) (vehicle {row['vehicle_id']}) (ts {row['ts']}) "
            f"(elapsed {elapsed}) (status {row['status']}) (ignition {str(row['ignition']).upper()}) (speed {speed}) "
            f"(travelled {row['travelled']}) (satellites {satellites}) "
            f"(accelerating {str(row['accelerating']).upper()}))"
        )
        last = row
    return ["\n".join(lines) for lines in facts.values()]


# lines: end
def main() -> None:
    import clips

    # lines: six
    def recognise(vehicles: list[str], names: tuple[str, ...]) -> pa.Table:
        network = clips.Environment()
        # lines: end
        shared = section(HERE / "in_clips.clp", "six")
        if names == SIX:
            network.batch_star(_as_file(shared))
        else:
            network.batch_star(_as_file(shared.split("(defrule", 1)[0] + section(HERE / "in_clips.clp", names[0])))
        # lines: six
        found: set[tuple[str, int, int]] = set()
        template = network.find_template("found")
        for facts in vehicles:
            network.reset()
            network.load_facts(facts)
            network.run()
            found.update((fact["pattern"], fact["vehicle"], fact["ts"]) for fact in template.facts())
        names_, entities, times = zip(*found, strict=True) if found else ((), (), ())
        return pa.table({"pattern": pa.array(names_, pa.string()), "entity": entities, "ts": pa.array(times, pa.int64())})

    # lines: end
    answer(as_facts, recognise, {"clips": clips.__version__ if hasattr(clips, "__version__") else ""})


def _as_file(text: str) -> str:
    path = HERE.parent / "data" / "peers" / "rules.clp"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


if __name__ == "__main__":
    main()
