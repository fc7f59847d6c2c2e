"""Checks that every way to a letter has named the events that it uses, and what else a pattern that remembers needs.

A way through a regex is one of the ways in which it reads a word. A letter may use only what every way to it has
named: after `a as x | b as x` there is an x, after `(a as x)?` there may be none. Under iteration the newest name
counts. What `!` holds is no part of a match, so that names given inside end there; the sides of `&` read the same
events at once, so that neither knows what the other one names.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.named_events import OfRegister, given_in, remembers
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import SourceText, Span

Names = frozenset[str]
Lost = dict[str, str]
_Following = Generator[tuple[m.Regex, Names, Lost], tuple[Names, Lost], tuple[Names, Lost]]


def check_regex(report: Diagnostics, source: SourceText, pattern: m.Pattern) -> None:
    """Reports names that not every way has given, calls that another event cannot answer, a missing window."""
    used: set[str] = set()
    check = _Ways(report, source, used)
    if given_in(pattern.regex, inside=True) or remembers(pattern.regex):
        check.after(pattern.regex, frozenset(), {})
    for letter in (part for part in walk(pattern.regex) if isinstance(part, m.Letter)):
        _check_questions(report, source, letter)
        if letter.register is not None and letter.register not in used:
            report.warn(
                source, f"no letter asks for `{letter.register}`", letter.span, "named here",
                f"compare with it in a later letter, as in `elapsed({letter.register}) > 5 min`, or leave `as` out",
            )  # fmt: skip
    if pattern.window is None and remembers(pattern.regex):
        asked = next(check.asked(pattern.regex), pattern.span)
        report.error(
            source, "a pattern that remembers events needs a window", asked,
            "every event may be the start of a match, and nothing says for how long it must be remembered",
            "write for example `within 1 h` after the regex",
        )  # fmt: skip


class _Ways:
    """Follows names through a regex: those that every way has given."""

    def __init__(self, report: Diagnostics, source: SourceText, used: set[str]) -> None:
        self._report, self._source, self._used = report, source, used

    def after(self, regex: m.Regex, known: Names, lost: Lost) -> tuple[Names, Lost]:
        """The names that are known after a regex, given those before it; `lost` says why others are not.

        A regex may be higher than Python's stack is deep: its parts wait on a stack of our own.
        """
        open_: list[_Following] = [self._follow(regex, known, lost)]
        behind: Any = None
        while open_:
            try:
                asked = open_[-1].send(behind)
            except StopIteration as ended:
                behind = ended.value
                open_.pop()
            else:
                open_.append(self._follow(*asked))
                behind = None
        found: tuple[Names, Lost] = behind
        return found

    def _follow(self, regex: m.Regex, known: Names, lost: Lost) -> _Following:
        """Requests the names known after each part, and returns those known after the whole."""
        match regex:
            case m.Letter():
                self._check(regex, known, lost)
                return (known if regex.register is None else known | {regex.register}), lost
            case m.Sequence(parts) | m.SkipAny(parts) | m.SkipNext(parts):
                for part in parts:
                    known, lost = yield part, known, lost
                return known, lost
            case m.Union(parts):
                ends = []
                for part in parts:
                    ends.append((yield part, known, lost))
                common = frozenset.intersection(*(names for names, _ in ends)) if ends else known
                some = frozenset().union(*(names for names, _ in ends)) - common
                merged = {name: why for _, reasons in ends for name, why in reasons.items()}
                return common, {**merged, **dict.fromkeys(some, "not every side of `|` before it names one")}
            case m.Intersection(parts):
                return (yield from self._together(parts, known, lost))
            case m.Complement(body):
                yield body, known, lost
                why = "what `!` holds is no part of the match, so that names end there"
                inside = dict.fromkeys(given_in(body), why)
                return known, {**lost, **inside}
            case m.Iteration(body, at_least, _):
                inner, reasons = yield body, known, lost
                if at_least:
                    return inner, reasons
                return known, {**reasons, **dict.fromkeys(inner - known, "there may be no round that names one")}
        raise TypeError(f"not a regex: {type(regex).__name__}")

    def _together(self, parts: tuple[m.Regex, ...], known: Names, lost: Lost) -> _Following:
        """The sides of `&`: neither knows what another one names, and none names what another one does."""
        given = [given_in(part) for part in parts]
        behind = known
        for i, part in enumerate(parts):
            others = {name: span for j, names in enumerate(given) if j != i for name, span in names.items()}
            for name in given[i].keys() & others.keys():
                if any(name in given[j] for j in range(i)):
                    self._report.error(
                        self._source, f"two sides of `&` name an event `{name}`", given[i][name],
                        "the other side does too", "give one of them another name",
                    )  # fmt: skip
            why = dict.fromkeys(others, "another side of `&` names it, and both read the same events at once")
            names, reasons = yield part, known.difference(others), {**lost, **why}
            behind |= names
            lost = {**lost, **{name: reason for name, reason in reasons.items() if name not in others}}
        return behind, lost

    def _check(self, letter: m.Letter, known: Names, lost: Lost) -> None:
        for part in walk(letter.predicate):
            if not isinstance(part, OfRegister):
                continue
            name = part.register
            self._used.add(name)
            if name in known:
                continue
            if letter.register == name and name not in lost:
                why = "this letter names it, and knows only what is named before it"
            else:
                why = lost.get(name, "no letter before it names one")
            self._report.error(
                self._source, f"there may be no event `{name}` here", part.span, why,
                f"name it on every way to this letter: `(…) as {name}`",
            )  # fmt: skip

    def asked(self, regex: m.Regex) -> Iterator[Span]:
        """Where letters use what a match remembers."""
        for letter in walk(regex):
            if isinstance(letter, m.Letter):
                for part in walk(letter.predicate):
                    if isinstance(part, OfRegister):
                        yield part.span
                    elif isinstance(part, m.Measure):
                        yield letter.span


def _check_questions(report: Diagnostics, source: SourceText, letter: m.Letter) -> None:
    """Reports functions that cannot take another event or the match so far."""
    functions = {m.Previous: "prev", m.Held: "held", m.Measure: "a measure"}
    for part in walk(letter.predicate):
        name = functions.get(type(part))
        if isinstance(part, m.FunctionCall | m.PredicateCall):
            name = part.name
        inner = (inner for inner in walk(part) if inner is not part and isinstance(inner, m.Measure | OfRegister))
        asked = next(inner, None) if name is not None else None
        if asked is None:
            continue
        what = "a value of the match so far" if isinstance(asked, m.Measure) else f"a value of `{asked.register}`"
        span = letter.span if isinstance(asked, m.Measure) else asked.span
        report.error(
            source, f"`{name}` cannot take {what}" if name != "a measure" else f"a measure cannot take {what}", span,
            "it looks at the values of single events", "compare with it directly",
        )  # fmt: skip
