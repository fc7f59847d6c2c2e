"""Trino: the standard's MATCH_RECOGNIZE (in_trino.sql), in a JVM of ours (java/InTrino.java).

The newest version that runs on Java 17, with its planner and operators but without a server: its LocalQueryRunner runs
a query in the thread that asks. Events are in tables of its memory connector before the clock starts.

- Each of two threads has an engine of its own, with its share of the vehicles, and works without exchanges between
  threads (`task_concurrency` is 1), which in an engine of one thread are pure cost.
- All ten patterns can be expressed: groups, alternation, references to earlier letters. A start gives one match, so
  `Route` and `StopAndGo`, of which one start may have several ends, read their rows backwards: each end begins a match
  then. For `Route` this matters once in a million events, where a vehicle moves and its ignition is off.
- It has no complement: `CalmTrip` is its automaton, multiplied out by hand as for Esper. It has no window either, so
  that of `Towed` is written into its letters.
"""

from __future__ import annotations

from benchmarks.peers.jvm.libraries import JAVA_OPTIONS, compiled, from_maven
from benchmarks.peers.peer import HERE, MATCH_TASKS, SIX, Form, java_tool

VERSION = "435"
ARTEFACTS = (f"io.trino:trino-main:{VERSION}", f"io.trino:trino-memory:{VERSION}")


def _start() -> list[str]:
    class_path = compiled("trino", from_maven("trino", ARTEFACTS), "InTrino")
    queries = f"-Dqueries={HERE / 'in_trino.sql'}"
    return [java_tool("java"), *JAVA_OPTIONS, queries, "-cp", class_path, "InTrino"]


FORM = Form(
    "trino-sql",
    "Trino SQL",
    "in_trino",
    "MATCH_RECOGNIZE in SQL",
    written=("in_trino.sql", "java/InTrino.java"),
    columns="csv",
    make_ready=_start,
    versions={"trino": VERSION},
    marks={"six": ("six", *SIX), **MATCH_TASKS},
)
