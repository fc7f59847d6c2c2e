"""Cases of row patterns, asked of the engines whose suites they come from: a corpus becomes queries; rows come back.

tests/corpus/peers.toml and tests/matches/silences_and_ends.toml have, beside each pattern in our language, the same in
the languages of other engines (`in.trino`, `in.flink`, `in.esper`, `in.siddhi`). An engine gets the events of a case
and its query, all cases in one process, and gives rows with the columns `seq` and `start_seq` (of the last event of a
match and of its first), `id` where there are several entities, and then what the case emits. Rows are compared as they
are, in any order: no row is chosen among several or left out, so a query says itself which matches it means. The
experiment `measures` is the other way round: it asks all for the same, and takes the shortest match of each end.
"""

from __future__ import annotations

import csv
import math
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import REPOSITORY
from benchmarks.peers import in_esper, in_siddhi, in_trino
from benchmarks.peers.jvm.flink import VERSION as FLINK_VERSION
from benchmarks.peers.jvm.flink import flink_python
from benchmarks.peers.jvm.libraries import JAVA_OPTIONS, compiled, from_maven
from benchmarks.peers.peer import java_tool

TESTS = REPOSITORY / "tests"
CORPUS = (TESTS / "corpus" / "peers.toml", TESTS / "matches" / "silences_and_ends.toml")
ENTITY = "e"  # of the cases without a column `id`
PLACE = ("id", "start_seq", "seq")
PATIENCE_S = 600

Row = tuple[Any, ...]  # entity, start_seq, seq, and what is emitted


@dataclass(frozen=True, slots=True)
class PeerCase:
    """Events as words, and what should be found in them, with a query for each engine that can say it."""

    name: str
    pattern: str
    columns: dict[str, list[str]]
    rows: list[Row]
    queries: Mapping[str, str]

    def types(self) -> dict[str, str]:
        return {name: "integer" if name in ("seq", "ts") else _type(words) for name, words in self.columns.items()}


@dataclass(frozen=True, slots=True)
class RowPatternEngine:
    """An engine that reads a folder of cases (java/Cases.java says their form) and writes what it finds."""

    name: str  # as the corpus has it
    title: str
    version: str
    command: Callable[[], list[str]]


def _java(name: str, class_path: Callable[[], str], *sources: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        classes = compiled(f"{name}-cases", class_path(), *sources, "Cases")
        return [java_tool("java"), *JAVA_OPTIONS, "-cp", classes, sources[0]]

    return command


def _flink() -> list[str]:
    return [str(flink_python()), "-m", "benchmarks.peers.row_patterns.in_flink"]


ENGINES = (
    RowPatternEngine(
        "trino",
        "Trino SQL",
        in_trino.VERSION,
        _java("trino", lambda: from_maven("trino", in_trino.ARTEFACTS), "CasesInTrino"),
    ),
    RowPatternEngine("flink", "Flink SQL", FLINK_VERSION, _flink),
    RowPatternEngine(
        "esper",
        "Esper",
        in_esper.VERSION,
        _java("esper", lambda: from_maven("esper", in_esper.ARTEFACTS), "CasesInEsper", "InEsper"),
    ),
    RowPatternEngine(
        "siddhi",
        "Siddhi",
        in_siddhi.VERSION,
        _java("siddhi", lambda: from_maven("siddhi", in_siddhi.ARTEFACTS, alone=True), "CasesInSiddhi"),
    ),
)


def peer_cases(corpus: tuple[Path, ...] = CORPUS) -> list[PeerCase]:
    return [_case(fields) for path in corpus for fields in tomllib.loads(path.read_text(encoding="utf-8"))["case"]]


def _case(fields: dict[str, Any]) -> PeerCase:
    name, pattern, detects, queries = (fields.pop(key) for key in ("name", "pattern", "detects", "in"))
    emits = fields.pop("emits", [[] for _ in detects])
    for ours in ("longest", "stream"):
        fields.pop(ours, None)
    columns = {column: words.split() for column, words in fields.items()}
    n_events = len(next(iter(columns.values())))
    ids = columns.pop("id", [ENTITY] * n_events)
    seconds = columns.pop("ts", [str(number) for number in range(n_events)])
    place = {
        "id": ids,
        "seq": [str(ids[:number].count(entity)) for number, entity in enumerate(ids)],
        "ts": [str(round(float(second) * 1000)) for second in seconds],
    }
    rows = []
    for where, emitted in zip(detects, emits, strict=True):
        entity, seq, start_seq = where if len(where) > 2 else (ENTITY, *where)
        rows.append((entity, start_seq, seq, *(None if cell == "-" else cell for cell in emitted)))
    return PeerCase(name, pattern, place | columns, rows, queries)


def _type(words: list[str]) -> str:
    try:
        for word in words:
            float(word if word != "-" else "0")
    except ValueError:
        return "text"
    return "number"


def ask(engine: RowPatternEngine, cases: list[PeerCase]) -> dict[str, list[Row] | str]:
    """The rows that an engine finds in each case, or what it says instead."""
    command = engine.command()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in cases:
            _write(folder / case.name, case, engine.name)
        done = subprocess.run(
            [*command, str(folder)], cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S
        )
        return {case.name: _read(folder / case.name, done.stderr) for case in cases}


def _write(place: Path, case: PeerCase, engine: str) -> None:
    place.mkdir()
    (place / "columns").write_text("".join(f"{name} {kind}\n" for name, kind in case.types().items()))
    events = zip(*case.columns.values(), strict=True)
    (place / "events").write_text(
        "".join(",".join("" if word == "-" else word for word in words) + "\n" for words in events)
    )
    (place / "query").write_text(case.queries[engine])


def _read(place: Path, said: str) -> list[Row] | str:
    if not (place / "found").exists():
        return (place / "fault").read_text() if (place / "fault").exists() else f"no answer: {said[-300:]}"
    with (place / "found").open(newline="") as file:
        found = list(csv.DictReader(file))
    return [_row({name.lower(): word for name, word in row.items()}) for row in found]


def _row(found: dict[str, str]) -> Row:
    emitted = (_number(word) for name, word in found.items() if name not in PLACE)
    return found.get("id", ENTITY), _number(found["start_seq"]), _number(found["seq"]), *emitted


def _number(word: str) -> Any:
    try:
        return float(word) if word else None
    except ValueError:
        return word


def difference(expected: list[Row], found: list[Row]) -> str | None:
    """How the rows of an engine differ from those of a case; None where they do not."""
    theirs = sorted(found, key=str)
    absent = []
    for row in expected:
        same = [number for number, other in enumerate(theirs) if _same(row, other)]
        if same:
            del theirs[same[0]]
        else:
            absent.append(row)
    return f"{absent} not found, {theirs} besides" if absent or theirs else None


def _same(one: Row, other: Row) -> bool:
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=1e-12) if isinstance(a, int | float) and isinstance(b, int | float) else a == b
        for a, b in zip(one, other, strict=True)
    )
