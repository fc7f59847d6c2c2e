"""The plans of a file's rules become one picture's source, in which a node that rules share stands once.

Arrows go the way that tuples take: from selections to the rule that they make up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wayeb_py.compiler.explain import quoted_in_dot
from wayeb_py.explained_plans.plan_text import AtNode, part_text
from wayeb_py.explained_plans.plans import PlannedRule


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    text: str
    is_rule: bool = False


def dot_plan(rules: Sequence[PlannedRule], at_node: AtNode) -> str:
    """The plans as a graph for Graphviz."""
    lines = ["digraph rules {", "  rankdir=BT; node [shape=box];"]
    boxes, edges = _graph(rules, at_node)
    for box in boxes:
        shape = ", shape=ellipse" if box.is_rule else ""
        lines.append(f"  {box.name} [label={quoted_in_dot(box.text)}{shape}];")
    return "\n".join([*lines, *(f"  {source} -> {target};" for source, target in edges), "}"])


def mermaid_plan(rules: Sequence[PlannedRule], at_node: AtNode) -> str:
    """The plans as a diagram for Mermaid."""
    lines = ["flowchart BT"]
    boxes, edges = _graph(rules, at_node)
    for box in boxes:
        text = box.text.replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;").replace("\n", "<br/>")
        lines.append(f'  {box.name}(["{text}"])' if box.is_rule else f'  {box.name}["{text}"]')
    return "\n".join([*lines, *(f"  {source} --> {target}" for source, target in edges)])


def _graph(rules: Sequence[PlannedRule], at_node: AtNode) -> tuple[list[_Box], list[tuple[str, str]]]:
    boxes: dict[str, _Box] = {}
    edges: dict[tuple[str, str], None] = {}
    for one in rules:
        for box, reads in _boxes(one, at_node):
            boxes.setdefault(box.name, box)  # a shared node has the words of the first rule
            edges |= dict.fromkeys((source, box.name) for source in reads)
        above = {member.of for member in one.members if member.over in ("matches", "kept")}
        for part in one.plan.root.every():
            member = one.members[part.members[0]]
            if not part.parts and member.of in above and f"rule_{member.of}" in boxes:
                edges[f"rule_{member.of}", _name(one, part.node.number)] = None
    return list(boxes.values()), list(edges)


def _boxes(one: PlannedRule, at_node: AtNode) -> Iterator[tuple[_Box, list[str]]]:
    for part in one.plan.root.every():
        told = at_node(part)
        text = part_text(part, one) + (f"\n{told}" if told else "")
        yield _Box(_name(one, part.node.number), text), [_name(one, inner.node.number) for inner in part.parts]
    root = _name(one, one.plan.root.node.number)
    yield _Box(f"rule_{one.rule.name}", f"rule {one.rule.name}", is_rule=True), [root]


def _name(one: PlannedRule, number: int) -> str:
    return f"{'k' if one.rule.kept else 'n'}{number}"


