"""Siddhi: sequences and patterns in SiddhiQL (in_siddhi.siddhi), events sent as Java arrays (java/InSiddhi.java).

- Its artefacts are on Maven Central, but one that they need is not: the disruptor under a group of WSO2's. The artefact
  of the same name and version from its makers takes its place, so each library is named here and none draws others.
- A start gives one match: an iteration in last place gave no match at all, and before a last letter only the first end.
- Events carry their own time (playback), so that the window is one of event time. Two threads have an app each, with
  their share of the vehicles.
"""

from __future__ import annotations

from benchmarks.peers.jvm.libraries import JAVA_OPTIONS, compiled, from_maven
from benchmarks.peers.peer import HERE, SIX, Form, java_tool

VERSION = "5.1.30"
ARTEFACTS = (
    f"io.siddhi:siddhi-core:{VERSION}",
    f"io.siddhi:siddhi-query-api:{VERSION}",
    f"io.siddhi:siddhi-query-compiler:{VERSION}",
    f"io.siddhi:siddhi-annotations:{VERSION}",
    "com.lmax:disruptor:3.4.2",
    "org.antlr:antlr4-runtime:4.11.1",
    "com.google.guava:guava:33.0.0-jre",
    "com.google.code.gson:gson:2.10.1",
    "io.dropwizard.metrics:metrics-core:3.1.0",
    "org.apache.logging.log4j:log4j-api:2.22.1",
    "org.apache.logging.log4j:log4j-core:2.22.1",
    "org.atteo.classindex:classindex:3.9",
    "org.mvel:mvel2:2.4.5.Final",
    "org.osgi:org.osgi.core:6.0.0",
    "org.quartz-scheduler:quartz:2.3.2",
    "org.slf4j:slf4j-api:1.7.36",
)
NO_GROUPS = "SiddhiQL iterates single letters only: neither groups nor alternation of sequences"


def _start() -> list[str]:
    class_path = compiled("siddhi", from_maven("siddhi", ARTEFACTS, alone=True), "InSiddhi")
    queries = f"-Dqueries={HERE / 'in_siddhi.siddhi'}"
    return [java_tool("java"), *JAVA_OPTIONS, queries, "-cp", class_path, "InSiddhi"]


FORM = Form(
    "siddhi",
    "Siddhi",
    "in_siddhi",
    "sequences in SiddhiQL",
    cannot={
        "StopAndGo": "a start has one end: of slow events in last place none but the first is reported",
        "Legs": NO_GROUPS,
        "CalmTrip": f"{NO_GROUPS}, and no complement",
    },
    written=("in_siddhi.siddhi", "java/InSiddhi.java"),
    columns="csv",
    make_ready=_start,
    versions={"siddhi": VERSION},
    marks={"six": ("six", *SIX)},
)
