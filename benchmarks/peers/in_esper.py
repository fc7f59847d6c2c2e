"""Esper: MATCH_RECOGNIZE in EPL (in_esper.epl), events sent as Java objects (java/InEsper.java).

All ten patterns can be expressed: groups, alternation, references to earlier letters. Findings on the way:

- `after match skip to next row` loses further ends of a start that has matched; `to current row` does not.
- `partition by` inside MATCH_RECOGNIZE ends in a fault when starts overlap (8.9.0; it goes to a log, and detections are
  missing), so each pattern has a context that is partitioned by vehicle.
- It has no complement: `CalmTrip` is its automaton, multiplied out by hand as for Hyperscan. The window of `Towed` is
  written into its letters, which also lets old starts go.
- One runtime takes a lock for each statement, so each of two threads has its own, with its share of the vehicles.
"""

from __future__ import annotations

from benchmarks.peers.jvm.libraries import JAVA_OPTIONS, compiled, from_maven
from benchmarks.peers.peer import HERE, MATCH_TASKS, SIX, Form, java_tool

VERSION = "8.9.0"
ARTEFACTS = (f"com.espertech:esper-runtime:{VERSION}", f"com.espertech:esper-compiler:{VERSION}")


def _start() -> list[str]:
    class_path = compiled("esper", from_maven("esper", ARTEFACTS), "InEsper")
    return [java_tool("java"), *JAVA_OPTIONS, f"-Depl={HERE / 'in_esper.epl'}", "-cp", class_path, "InEsper"]


FORM = Form(
    "esper",
    "Esper",
    "in_esper",
    "MATCH_RECOGNIZE in EPL",
    written=("in_esper.epl", "java/InEsper.java"),
    columns="csv",
    make_ready=_start,
    versions={"esper": VERSION},
    marks={"six": ("six", *SIX), **MATCH_TASKS},
)
