"""CLIPS, by clipspy: forward-chaining rules (in_clips.clp) over one fact an event.

CLIPS's own reader asserts the facts from files, which takes half the time of a call from Python for each and a
twentieth of reading them from text in memory; the files are made before the clock starts. They are given vehicle by
vehicle, each forgotten before the next, so that memory stays small. CLIPS has no iteration, complement, policy or
window over events: rules step automata for all of these that were built by hand, which is why it can express everything
here.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.peer import HERE, SIX, Form, section
from benchmarks.peers.peer_process import NEEDED, answer

FORM = Form(
    "clips",
    "CLIPS",
    "in_clips",
    "rules over facts; automata by hand",
    needs=("clips",),
    written=("in_clips.clp", "in_clips.py"),
)


# lines: six
def as_facts(path: Path, folder: Path) -> list[Path]:
    """The facts of each vehicle, as a file; a number of its own for each event, in the order of time."""
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
    files = []
    for vehicle, lines in facts.items():
        files.append(folder / f"{vehicle}.facts")
        files[-1].write_text("\n".join(lines))
    return files


# lines: end
def main() -> None:
    import clips

    # lines: six
    def recognise(vehicles: list[Path], names: tuple[str, ...]) -> pa.Table:
        network = clips.Environment()
        network.batch_star(str(rules_of(names)))
        found: set[tuple[str, int, int]] = set()
        template = network.find_template("found")
        for facts in vehicles:
            network.reset()
            network.load_facts(str(facts))
            network.run()
            found.update((fact["pattern"], fact["vehicle"], fact["ts"]) for fact in template.facts())
        names_, entities, times = zip(*found, strict=True) if found else ((), (), ())
        return pa.table(
            {"pattern": pa.array(names_, pa.string()), "entity": entities, "ts": pa.array(times, pa.int64())}
        )

    # lines: end
    with tempfile.TemporaryDirectory() as folder:

        def rules_of(names: tuple[str, ...]) -> Path:
            rules = section(HERE / "in_clips.clp", "six")
            if names != SIX:  # of the six only the templates and functions
                rules = rules.split("(defrule", 1)[0] + section(HERE / "in_clips.clp", names[0])
            path = Path(folder, "rules.clp")
            path.write_text(rules)
            return path

        answer(lambda path: as_facts(path, Path(folder)), recognise, {"clipspy": version("clipspy")})


if __name__ == "__main__":
    main()
