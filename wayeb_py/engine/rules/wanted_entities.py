"""Rules and files of facts become the entities whose detections a rule can use at all.

    rule SanctionedContact := m: Meeting, l: listed where l.mmsi = m.entity …      listed.csv: 211000001, 211000002

Where every rule that reads the patterns of a stream joins their entity with facts of a file, no detection of any other
entity is ever in a match: patterns do not look at their events. Facts that a stream changes tell nothing beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.links import links_of


def wanted_keys(
    rules: tuple[m.Rule, ...], patterns: Collection[str], files: Mapping[str, Mapping[str, pa.Array]]
) -> list[pa.Array] | None:
    """The values of facts of which the key of a detection of these patterns is one; None where it may be any."""
    found: list[pa.Array] = []
    for rule in rules:
        scopes = [(rule.members, rule.members, rule.conditions)]
        scopes += [(one.members, (*rule.members, *one.members), one.conditions) for one in rule.unless]
        for members, around, conditions in scopes:
            facts = {one.name: files[one.of] for one in around if one.over == "facts" and one.of in files}
            for member in members:
                if member.over in ("detections", "episodes") and member.of in patterns:
                    told = _told(member, conditions, facts)
                    if told is None:
                        return None
                    found.append(told)
    return found or None


def _told(
    member: m.Member, conditions: tuple[m.Condition, ...], facts: Mapping[str, Mapping[str, pa.Array]]
) -> pa.Array | None:
    """The values of the facts that the entity of a member's rows is equal to."""
    for key in links_of(conditions).keys:
        if len(key.equal) > 1:  # one of several pairs
            continue
        for own, other in (key.equal[0], key.equal[0][::-1]):
            match own, other:
                case (m.Of(role, m.Attribute("entity")), m.Of(fact, m.Attribute(column))) if (
                    role == member.name and fact in facts
                ):
                    return facts[fact][column]
    return None


def are_wanted(keys: pa.Array, wanted: Sequence[pa.Array]) -> pa.Array:
    """Which of some keys are among the wanted ones; all where the types of the two cannot be compared so."""
    try:
        values = pa.concat_arrays([one.cast(keys.type) for one in wanted])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # numbers with a fraction, texts beside numbers
        return pa.array([True] * len(keys), pa.bool_())
    return pc.is_in(keys, value_set=values.drop_null())
