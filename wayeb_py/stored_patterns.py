"""Compiled patterns become text and the bytes of their files, and are compiled again when they are read.

    {"meaning": …, "limits": …, "longest": …, "automata": …, "functions": …, "files": …} \\n   file   file   …

The meaning is JSON (`meaning_json`), knowledge is kept as the files were, byte by byte, and read by the same readers.
The same meaning compiles to the same automata everywhere. A digest of the automata is kept and compared, so that a
release that compiles them otherwise cannot continue with a state of another meaning.

A user's functions are code; the text holds only their names and kinds, and the caller passes them when it opens
the patterns. *Not taken*: a pickle of everything, which could carry any code of its writer; the automata as arrays,
which saves a second at a start and has to be checked state by state.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.pattern import automaton_digest
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.meaning_json import read_meaning, write_meaning
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import DamagedError, DataError, WayebError
from wayeb_py.files.stores import Location
from wayeb_py.functions import UserFunction
from wayeb_py.patterns import Patterns
from wayeb_py.spatial.knowledge import KnowledgeBase


def store_patterns(patterns: Patterns) -> bytes:
    """The patterns with the files that they name; DataError where one of these is at fault."""
    patterns.knowledge.load_for(patterns.meaning.patterns)
    contents = {name: path.read_bytes() for name, path in _files(patterns).items()}
    head = {
        "meaning": write_meaning(replace(patterns.meaning, examples=(), warnings=())),
        "limits": asdict(patterns.limits),
        "longest": patterns.longest,
        "automata": [automaton_digest(pattern) for pattern in patterns.compiled],
        "functions": {name: _signature(f) for name, f in sorted(patterns.functions.items())},
        "files": [[name, _files(patterns)[name].suffix, len(content)] for name, content in contents.items()],
    }
    return b"\n".join([json.dumps(head, sort_keys=True).encode(), b"".join(contents.values())])


def open_stored(data: bytes, functions: Mapping[str, UserFunction]) -> Patterns:
    """The patterns that were stored; DamagedError, without a place, where they are not what was stored."""
    try:
        patterns, automata = _open(data, functions)
    except DamagedError:
        raise
    except (WayebError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise DamagedError(f"the stored patterns cannot be opened: {str(error).splitlines()[0]}") from error
    if [automaton_digest(pattern) for pattern in patterns.compiled] != automata:
        raise DataError("the stored patterns compile to other automata than those that they were run by")
    return patterns


def functions_of(data: bytes) -> list[str]:
    """The names of the functions that the caller must give to stored patterns."""
    try:
        return list(json.loads(data.partition(b"\n")[0])["functions"])
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedError("the stored patterns cannot be opened") from error


def _open(data: bytes, functions: Mapping[str, UserFunction]) -> tuple[Patterns, list[str]]:
    text, _, rest = data.partition(b"\n")
    head = json.loads(text)
    if {name: _signature(f) for name, f in functions.items()} != head["functions"]:
        raise DamagedError("the stored patterns call other functions than those that are stored with them")
    meaning = read_meaning(head["meaning"])
    with tempfile.TemporaryDirectory(prefix="wayeb-places-") as folder:  # private to this class
        paths: dict[str, Path] = {}
        begin = 0
        for number, (name, suffix, size) in enumerate(head["files"]):
            paths[name] = Path(folder) / f"{number}{Path('x' + suffix).suffix}"
            paths[name].write_bytes(rest[begin : begin + size])
            begin += size
        knowledge: KnowledgeBase = _StoredKnowledge(meaning, paths)
        patterns = Patterns.from_meaning(meaning, dict(functions), Limits(**head["limits"]), head["longest"], knowledge)
        knowledge.load_for(meaning.patterns)
        for places in _places_of_rules(meaning):
            knowledge.load(places)
        if meaning.rules:
            patterns = replace(patterns, knowledge=knowledge.with_facts(_facts(meaning, paths)))
    return patterns, head["automata"]


class _StoredKnowledge(KnowledgeBase):
    """Knowledge whose files lie where they were unpacked, and not where the pattern files say."""

    def __init__(self, meaning: m.Meaning, paths: Mapping[str, Path]) -> None:
        super().__init__(meaning.knowledge, True, meaning.lookups)
        self._paths = paths

    def path_of(self, known: m.Knowledge | m.Lookup) -> Location:
        return self._paths[_name(known)]


def _files(patterns: Patterns) -> dict[str, Location]:
    """The files that the patterns and rules use."""
    knowledge, meaning = patterns.knowledge, patterns.meaning
    asked = [*knowledge.asked_for(meaning.patterns), *(knowledge.declared[name] for name in _places_of_rules(meaning))]
    files: dict[str, Location] = {_name(known): knowledge.path_of(known) for known in asked}
    return files | {f"facts {facts.name}": path for facts, path in fact_files(meaning)}


def _places_of_rules(meaning: m.Meaning) -> list[str]:
    """The places that conditions of rules name, in the order of the rules."""
    conditions = [
        condition
        for rule in meaning.rules
        for some in (rule.conditions, *(unless.conditions for unless in rule.unless))
        for condition in some
    ]
    parts = [part for condition in conditions for part in walk(condition.predicate)]
    return list(dict.fromkeys(part.name for part in parts if isinstance(part, m.Places)))


def fact_files(meaning: m.Meaning) -> list[tuple[m.Facts, Location]]:
    """The files of facts that rules may read."""
    from wayeb_py.compiler.review.facts import path_of  # for start-up time: most have no rules

    return [(facts, path_of(facts)) for facts in meaning.facts if facts.stream is None] if meaning.rules else []


def _facts(meaning: m.Meaning, paths: Mapping[str, Path]) -> dict[str, Mapping[str, Any]]:
    """The tables of facts, from where their files were unpacked."""
    from wayeb_py.engine.rules.fact_files import read_facts  # for start-up time: most have no rules

    return {
        facts.name: read_facts(replace(facts, path=str(paths[f"facts {facts.name}"]), given=True), outside=True)
        for facts, _ in fact_files(meaning)
    }


def _name(known: m.Knowledge | m.Lookup) -> str:
    return f"{'lookup' if isinstance(known, m.Lookup) else 'places'} {known.name}"


def _signature(function: UserFunction) -> list[Any]:
    signature = function.signature
    return [list(signature.operands), signature.result, function.scalar]
