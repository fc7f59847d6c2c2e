"""Fifteen small rule sets, each for one part of a rule engine, after the micro-benchmarks of the gesture engine PARTE.

PARTE (Renaux, Hoste, Marr, De Meuter: Parallel gesture recognition with soft real-time guarantees, Science of Computer
Programming 2015) is measured against CLIPS by tests of one fact, simple, complex and heavy, in one rule or in many, by
trees of joins whose variables are bound in four ways, and by a search. These are our own, after its descriptions; dice
of one seed make the data.

Conditions are written once, as `a.x * 3 > b.y`, and become the text of a rule of ours, or patterns of CLIPS.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wayeb_py.arrays import I64

SEED = 14
Tables = Mapping[str, Mapping[str, I64]]


@dataclass(frozen=True, slots=True)
class SmallRule:
    """Members by name and table; columns that are equal; tests, each over the columns of some members; and columns that
    are equal to a number."""

    name: str
    members: tuple[tuple[str, str], ...]
    equal: tuple[tuple[str, str], ...] = ()
    tests: tuple[str, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MicroBenchmark:
    """Rules over tables of facts; every match of a rule is a firing."""

    name: str
    tables: Tables
    rules: tuple[SmallRule, ...]


# The rule sets.


def micro_benchmarks(n: int) -> list[MicroBenchmark]:
    """All fifteen: simple tests over n events, the others over fewer, the heavier they are."""
    dice = np.random.default_rng(SEED)
    one = (("e", "event"),)

    def events(n_events: int) -> Tables:
        both = np.unique(dice.integers(0, 100_000, (n_events, 2)), axis=0)  # a fact that is stated twice is one
        x, y = dice.permutation(both).T.copy()
        return {"event": {"x": x, "y": y}}

    simple, complex_, heavy = events(n), events(n // 4), events(n // 20)

    def of_one(name: str, tables: Tables, tests: Sequence[str]) -> MicroBenchmark:
        return MicroBenchmark(name, tables, (SmallRule("Found", one, tests=tuple(tests)),))

    def of_many(name: str, tables: Tables, tests: Sequence[str]) -> MicroBenchmark:
        rules = (SmallRule(f"Found{nth}", one, tests=(test,)) for nth, test in enumerate(tests))
        return MicroBenchmark(name, tables, tuple(rules))

    constants = [f"e.x * {3 + nth} + {7 * nth} != {1000 * (3 + nth) + 8 * nth}" for nth in range(50)]
    variables = [f"e.x * {1 + nth} + e.y != e.y * {2 + nth} - {5 * nth}" for nth in range(50)]
    return [
        *(
            of_one(f"{many} simple tests", simple, [f"e.x != {17 * nth + 5}" for nth in range(many)])
            for many in (100, 500)
        ),
        of_one("complex tests, constants", complex_, constants),
        of_one("complex tests, variables", complex_, variables),
        *(of_one(f"{many} heavy tests", heavy, [_heavy(nth) for nth in range(many)]) for many in (16, 32, 64, 128)),
        of_many("simple parallel", simple, [f"e.x < {10 + nth}" for nth in range(64)]),
        of_many("heavy parallel", heavy, [_heavy(nth, rare=True) for nth in range(64)]),
        *_joining_trees(n, dice),
        _search(n, dice),
    ]


def _heavy(nth: int, *, rare: bool = False) -> str:
    """A polynomial of the tenth degree in x that few events fail, or, if `rare`, that few satisfy."""
    value = "1.0"
    for power in range(10):
        value = f"({value} * (e.x / 100000.0) + {0.25 + ((nth * 7 + power * 3) % 11) / 20})"
    return f"{value} > {5.2 + 0.01 * (nth % 7)}" if rare else f"{value} < {6.9 + 0.01 * (nth % 7)}"


def _joining_trees(n: int, dice: np.random.Generator) -> list[MicroBenchmark]:
    """Four members, two and two joined, and then both."""
    members = (("a", "first"), ("b", "second"), ("c", "third"), ("d", "fourth"))
    names = [table for _, table in members]
    rows = max(8, n // 10)

    def tables(rows: int, n_keys: int) -> Tables:
        return {
            name: {"k": dice.integers(0, n_keys, rows), "j": dice.integers(0, n_keys, rows), "x": np.arange(rows)}
            for name in names
        }

    in_pairs = (("b.k", "a.k"), ("d.k", "c.k"), ("c.j", "b.j"))
    n_unbound = max(2, round((20 * n) ** 0.25) // 2 * 2)
    return [
        MicroBenchmark("joining tree, basic", tables(rows, rows), (SmallRule("Tree", members, in_pairs),)),
        # Nothing ties the members: all combinations of a few rows.
        MicroBenchmark("joining tree, unbound", tables(n_unbound, 3), (SmallRule("Tree", members),)),
        # Tests of the other members use what the first binds.
        MicroBenchmark(
            "joining tree, bound",
            tables(rows, rows // 3),
            (SmallRule("Tree", members, in_pairs, ("b.x > a.x", "c.x + b.x > a.x", "d.x - c.x < b.x + a.x")),),
        ),
        # One value in all four.
        MicroBenchmark(
            "joining tree, unified",
            tables(rows, rows // 2),
            (SmallRule("Tree", members, (("b.k", "a.k"), ("c.k", "a.k"), ("d.k", "a.k"))),),
        ),
    ]


def _search(n: int, dice: np.random.Generator) -> MicroBenchmark:
    """Finds all cycles of four corners of a random graph, each once: its first corner is the least."""
    n_ties = max(20, n // 5)
    n_corners = max(6, n_ties // 8)
    ties = np.unique(dice.integers(0, n_corners, (n_ties, 2)), axis=0)
    ties = ties[ties[:, 0] != ties[:, 1]]
    graph = {"tie": {"s": ties[:, 0].copy(), "t": ties[:, 1].copy()}}
    round_four = SmallRule(
        "Round",
        tuple((name, "tie") for name in "abcd"),
        (("b.s", "a.t"), ("c.s", "b.t"), ("d.s", "c.t"), ("d.t", "a.s")),
        ("b.s > a.s", "c.s > a.s", "d.s > a.s", "b.s != d.s"),
    )
    return MicroBenchmark("search", graph, (round_four,))


# As text of a file.


TIME_UNIT = "ms"
WINDOW = "1 h"  # in which all events lie, since CLIPS keeps its facts for ever


def in_wayeb(benchmark: MicroBenchmark) -> str:
    """The rules over events, of a stream for each table; besides the columns of a fact, an event has `finger`,
    its entity, and `ts`."""
    lines = []
    for name, columns in benchmark.tables.items():
        attributes = " ".join(f"attr {column} number" for column in columns)
        own = f"key finger  time ts in {TIME_UNIT}  lateness 1 s  attr finger number  {attributes}"
        lines.append(f"stream {name} {{ {own} }}")
    for rule in benchmark.rules:
        conditions = [*(f"{one} = {other}" for one, other in (*rule.equal, *rule.constants)), *rule.tests]
        every = "" if conditions else "every combination of "
        members = ", ".join(f"{name}: {table}" for name, table in rule.members)
        where = f" where {' and '.join(conditions)}" if conditions else ""
        within = f" within {WINDOW}" if len(rule.members) > 1 else ""
        lines.append(f"rule {rule.name} := {every}{members}{where}{within}")
    return "\n".join(lines) + "\n"


def _columns(test: str) -> list[str]:
    return [ast.unparse(node) for node in ast.walk(ast.parse(test, mode="eval")) if isinstance(node, ast.Attribute)]


# As rules of CLIPS.

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Lt: "<", ast.Gt: ">", ast.NotEq: "<>", ast.Eq: "=",
}  # fmt: skip


def in_clips(rule: SmallRule, columns: Mapping[str, Sequence[str]]) -> str:
    """The rule with a pattern for each member; equal columns are one variable, tests stand where all is bound."""
    variable = {f"{name}.{column}": f"?{name}-{column}" for name, table in rule.members for column in columns[table]}
    for one, other in rule.equal:
        variable = {text: variable[other] if known == variable[one] else known for text, known in variable.items()}
    waiting = list(rule.tests)
    patterns, bound = [], set[str]()
    for name, table in rule.members:
        asked = {text for test in rule.tests for text in _columns(test)} | {
            text for pair in rule.equal for text in pair
        }
        own = [column for column in columns[table] if f"{name}.{column}" in asked]
        bound |= {f"{name}.{column}" for column in own}
        ready = [test for test in waiting if set(_columns(test)) <= bound]
        waiting = [test for test in waiting if test not in ready]
        slots = [[text.partition(".")[2], str(value)] for text, value in rule.constants if text.startswith(f"{name}.")]
        slots += [[column, variable[f"{name}.{column}"]] for column in own]
        if ready:
            slots[-1][1] += "".join(f"&:{_prefix(ast.parse(test, mode='eval').body, variable)}" for test in ready)
        patterns.append(f"({table} {' '.join(f'({column} {value})' for column, value in slots)})")
    body = "\n    ".join(patterns)
    return f"(defrule {rule.name}\n    {body}\n    => (bind ?*found* (+ ?*found* 1)))"


def _prefix(node: ast.expr, variable: Mapping[str, str]) -> str:
    if isinstance(node, ast.Compare):
        return (
            f"({_OPERATORS[type(node.ops[0])]} {_prefix(node.left, variable)} {_prefix(node.comparators[0], variable)})"
        )
    if isinstance(node, ast.BinOp):
        return f"({_OPERATORS[type(node.op)]} {_prefix(node.left, variable)} {_prefix(node.right, variable)})"
    return variable[ast.unparse(node)] if isinstance(node, ast.Attribute) else ast.unparse(node)
