"""FlinkCEP's DataStream API (java/InFlinkCep.java), on a cluster in this process with two slots.

- `noSkip` gives a match for every start and end; the ends are kept once each.
- A condition cannot use the time since the previous event, so a keyed map before the patterns adds it; the stream
  is then taken as keyed already, which saves a second exchange.
- Events come in order, so that all but the window run in processing time: event time would buffer and sort them.
- `Legs` cannot be expressed: there is alternation of conditions, but not of sequences.
- `CalmTrip` is a condition in Java that looks back through its match. The complement's automaton as repeated groups,
  all of them `consecutive`, gave false detections.
"""

from __future__ import annotations

from benchmarks.peers.jvm.flink import OPENED, VERSION, flink_jars
from benchmarks.peers.jvm.libraries import JAVA_OPTIONS, compiled
from benchmarks.peers.peer import Form, java_tool


def _start() -> list[str]:
    class_path = compiled("flink", flink_jars(), "InFlinkCep")
    return [java_tool("java"), *JAVA_OPTIONS, *OPENED, "-cp", class_path, "InFlinkCep"]


FORM = Form(
    "flink-cep",
    "FlinkCEP DataStream",
    "in_flink_cep",
    "patterns in Java, no skipping",
    cannot={"Legs": "FlinkCEP has no alternation of sequences"},
    written=("java/InFlinkCep.java",),
    columns="csv",
    make_ready=_start,
    versions={"flink": VERSION},
)
