"""Patterns become bytes that carry everything they need to an executor without their files.

Places, `lookup` tables and files of facts go as they were loaded here, and a user's functions by value, not by the
name of a module that only the driver can import. A worker process opens the same bytes once, however many tasks it
runs.

These bytes are a pickle. They go from Spark's driver to its own workers, as its tasks do, and are never kept in a
folder: a checkpoint keeps text (`pattern_versions`), and as a pickle only a user's functions.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns

KEPT = 8  # sets of patterns that a worker process keeps open


def pack_patterns(patterns: Patterns) -> bytes:
    """The patterns with everything that they name; DataError where one of their files is at fault."""
    from pyspark import cloudpickle

    patterns.knowledge.load_for(patterns.meaning.patterns)
    facts = {one.name: one for one in patterns.meaning.facts if one.stream is None}
    if patterns.meaning.rules and facts:
        from wayeb_py.engine.rules.fact_files import read_facts  # for start-up time: most have no rules

        read = {name: read_facts(one, patterns.knowledge.outside) for name, one in facts.items()}
        patterns = replace(patterns, knowledge=patterns.knowledge.with_facts(read))
    with _by_value(_modules_of(patterns)):
        payload: bytes = cloudpickle.dumps(patterns)
    return payload


def pack_functions(patterns: Patterns) -> bytes:
    """The user's functions by value, by their names."""
    from pyspark import cloudpickle

    with _by_value(_modules_of(patterns)):
        payload: bytes = cloudpickle.dumps(patterns.functions)
    return payload


def open_patterns(payload: bytes, names: tuple[str, ...] = (), accounts: bool = True) -> Patterns:
    """The packed patterns, or those with the given names.

    The task that `accounts` for the events reads all columns that the whole set needs, and so do all tasks where values
    are cleaned: which rows are set aside and counted must not depend on how the patterns were split.
    """
    patterns = _open(payload)
    return patterns if not names else _select(payload, names, accounts)


@lru_cache(KEPT)
def _open(payload: bytes) -> Patterns:
    patterns: Patterns = pickle.loads(payload)
    return patterns


@lru_cache(KEPT)
def _select(payload: bytes, names: tuple[str, ...], accounts: bool) -> Patterns:
    return select(_open(payload), names, accounts)


def select(patterns: Patterns, names: tuple[str, ...], accounts: bool) -> Patterns:
    """Some of the patterns, with the needs of all of them where those decide what is counted."""
    chosen = patterns.select(names)
    if accounts or patterns.meaning.stream.clean is not None:
        return replace(chosen, needs=patterns.needs)
    return chosen


def _modules_of(patterns: Patterns) -> list[ModuleType]:
    """The modules that a pickle would otherwise look for user functions in."""
    found = {inspect.getmodule(function.function) for function in patterns.functions.values()}
    return [
        module
        for module in found
        if module is not None and sys.modules.get(module.__name__) is module and module.__name__ != "__main__"
    ]


@contextmanager
def _by_value(modules: list[ModuleType]) -> Iterator[None]:
    from pyspark import cloudpickle

    known = cloudpickle.list_registry_pickle_by_value()
    registered = [module for module in modules if module.__name__ not in known]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)
