"""Finds events that patterns need not process a second time for rules: their detections are reported anyway, or no rule
can use their entity.

Rules see what patterns detect in the events that count for the clock. Where all events of a stream come in the order of
time, every event counts, and that is what is reported. So where rules read only detections of a stream, of patterns
that are reported with all that rules want of them, its events need not be held, put in order and stepped again: this is
most of what a rule costs beside its patterns.

Where every rule that reads the patterns of a stream joins their entity with facts of a file, no detection of any other
entity is ever in a match: patterns do not look at their events. Facts that a stream changes are not known beforehand.

*Not taken*: the first where a state may be saved. What is saved must continue whatever the order of later events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.needed_columns import reads
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_inputs import emitted_for_rules, facts_of, members_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.links import links_of


def reported_patterns(patterns: CompiledPatterns, orders: Mapping[str, str]) -> dict[str, str]:
    """The stream of each pattern that rules may take as it is reported."""
    meaning = patterns.meaning
    found: dict[str, str] = {}
    for name, part in patterns.by_stream.items():
        others = (one for one in meaning.patterns if one.pair is not None or one.silence_s is not None)
        if orders[name] == "sorted" and not any(reads(one, part.stream, meaning) for one in others):
            found |= dict.fromkeys(_of_stream(patterns, name, part.stream) or (), name)
    return found


def _of_stream(patterns: CompiledPatterns, name: str, stream: m.Stream) -> list[str] | None:
    """The patterns of a stream that rules read; None where they read something else of it."""
    meaning = patterns.meaning
    own = {one.name: one for one in meaning.patterns if reads(one, stream, meaning)}
    found = []
    for member in (member for rule in meaning.rules for member in members_of(rule)):
        if member.over in ("events", "newest"):
            is_other = member.of == name
        elif member.over == "facts":
            is_other = facts_of(meaning, member.of).stream == name
        else:
            is_other = member.over == "episodes" and member.of in own
        if is_other:
            return None
        if member.over == "detections" and member.of in own:
            pattern = own[member.of]
            if pattern.name not in patterns.names or emitted_for_rules(pattern, meaning.rules) != pattern:
                return None
            found.append(pattern.name)
    return found


def wanted_keys(
    rules: tuple[m.Rule, ...], patterns: Collection[str], files: Mapping[str, Mapping[str, pa.Array]]
) -> list[pa.Array] | None:
    """The fact values that the key of these patterns' detections must be among; None where it may be any."""
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
    """Which of some keys are among the wanted ones; all where the two types cannot be compared this way."""
    try:
        values = pa.concat_arrays([one.cast(keys.type) for one in wanted])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # numbers with a fraction, texts beside numbers
        return pa.array([True] * len(keys), pa.bool_())
    return pc.is_in(keys, value_set=values.drop_null())
