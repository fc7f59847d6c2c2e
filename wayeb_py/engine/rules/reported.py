"""Patterns whose reported detections rules can take as they are, instead of finding them a second time.

Rules see what patterns detect in the events that count for the clock. Where all events of a stream come in the order of
time, every event counts, and that is what is reported. So where rules ask a stream for detections alone, of patterns
that are reported with all that rules want of them, its events need not be held, put in order and stepped again: this is
most of what a rule costs beside its patterns.

*Not taken*: the same where a state may be saved. What is saved must go on whatever the order of the events to come.
"""

from __future__ import annotations

from collections.abc import Mapping

from wayeb_py.compiler.needs import reads
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_inputs import emitted_for_rules, facts_of, members_of
from wayeb_py.dsl import meaning as m


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
