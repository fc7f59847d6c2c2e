"""The grammar of `rule` and `facts`: members, conditions, what must not have happened, and the columns of tables."""

from __future__ import annotations

from typing import Any

import pyparsing as pp

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.clauses import EMIT_COLUMNS, SERVICE
from wayeb_py.dsl.syntax.errors import declarations as errors
from wayeb_py.dsl.syntax.errors import rules as rule_errors
from wayeb_py.dsl.syntax.lexicon import BLANK, Token
from wayeb_py.dsl.syntax.terminals import (
    COMMA,
    CONDITION,
    END,
    QUOTED,
    Lexical,
    Quantity,
    Required,
    end_of,
    made,
    name_of,
    need_name,
    required,
    text_of,
    word,
)
from wayeb_py.errors import Span

# Members.

_COLON = Required(Lexical("colon", r":(?!=)"), rule_errors.no_colon)
# A pattern may be called `episode`, and a member `every`.
_WHICH = Lexical("which", rf"(?:episode|newest)\b(?={BLANK.pattern}of\b)") + word("of")
_EVERY_WORD = Lexical("every", rf"every\b(?!{BLANK.pattern}:)")


def _member(tokens: list[Any]) -> t.Member:
    name, *_, of = tokens
    which = next((token.text for token in tokens if token.kind == "which"), None)
    return t.Member(name_of(name), name_of(of), which, span=name.span.to(of.span), name_span=name.span, of_span=of.span)


_MEMBER = made(need_name("the member") + _COLON + pp.Opt(_WHICH) + need_name("what it ranges over"), _member)
_MEMBERS = _MEMBER + pp.ZeroOrMore(COMMA + _MEMBER)

# Clauses.

_WHERE = word("where") + CONDITION


def _members(tokens: list[Any]) -> tuple[t.Member, ...]:
    return tuple(item for item in tokens if isinstance(item, t.Member))


def _condition(tokens: list[Any]) -> t.Expression | None:
    return next((item for item in tokens if isinstance(item, t.Expression)), None)


_UNLESS = made(
    word("unless") + _MEMBERS + pp.Opt(_WHERE),
    lambda x: t.Unless(_members(x), _condition(x), span=Span(x[0].start, end_of(x[-1]))),
)
_MEMBER_NAME = made(need_name("once for"), lambda x: t.Name(name_of(x[0]), span=x[0].span))
_ONCE = made(
    word("once") + required("for", rule_errors.no_for) + _MEMBER_NAME + pp.ZeroOrMore(COMMA + _MEMBER_NAME),
    lambda x: t.OnceFor(tuple(item for item in x if isinstance(item, t.Name)), span=x[0].span.to(x[-1].span)),
)


def _within(tokens: list[Any]) -> t.Within:
    keyword, window = tokens
    rule_errors.check_window(window)
    return t.Within(window.amount, span=keyword.span.to(window.span))


_WITHIN = made(word("within") + Quantity("within", events=True, example="within 12 h"), _within)
_EVERY = _EVERY_WORD + required("combination", rule_errors.no_combination) + required("of", rule_errors.no_combination)


def _rule(tokens: list[Any]) -> t.Rule:
    name = tokens[1]
    kinds: dict[type, Any] = {type(item): item for item in tokens}
    return t.Rule(
        name_of(name),
        _members(tokens),
        _condition(tokens),
        tuple(item for item in tokens if isinstance(item, t.Unless)),
        kinds.get(t.OnceFor),
        kinds.get(t.Within),
        kinds.get(t.Emit),
        any(isinstance(item, Token) and item.kind == "every" for item in tokens),
        kinds.get(t.Service),
        span=Span(tokens[0].start, end_of(tokens[-2])),
        name_span=name.span,
    )


_RULE = made(
    word("rule")
    + need_name("rule")
    + required(":=", rule_errors.no_assignment)
    + pp.Opt(_EVERY)
    + _MEMBERS
    + pp.Opt(_WHERE)
    + pp.ZeroOrMore(_UNLESS)
    + pp.Opt(_ONCE)
    + pp.Opt(_WITHIN)
    + pp.Opt(EMIT_COLUMNS)
    + pp.Opt(SERVICE)
    + Required(END, rule_errors.after_rule),
    _rule,
)

# Facts.

_COLUMN = made(need_name("a column of facts"), lambda x: t.Name(name_of(x[0]), span=x[0].span))
_FILE_COLUMN = made(Required(QUOTED, rule_errors.no_file_column), lambda x: t.Text(text_of(x[0]), span=x[0].span))
_FILE_COLUMNS = (
    word("columns")
    + required("(", rule_errors.no_file_column)
    + _FILE_COLUMN
    + pp.ZeroOrMore(COMMA + _FILE_COLUMN)
    + required(")", rule_errors.facts_never_closed)
)
_CHANGES = word("changes") + need_name("the stream of changes")


def _facts(tokens: list[Any]) -> t.Facts:
    name = tokens[1]
    origin = tokens[[isinstance(item, Token) and item.kind == "`from`" for item in tokens].index(True) + 1 :]
    of_stream = origin[0].text == "changes"
    of = origin[1] if of_stream else origin[0]
    return t.Facts(
        name_of(name),
        tuple(item for item in tokens if isinstance(item, t.Name)),
        None if of_stream else text_of(of),
        name_of(of) if of_stream else None,
        tuple(item for item in tokens if isinstance(item, t.Text)),
        span=Span(tokens[0].start, end_of(tokens[-2])),
        name_span=name.span,
        from_span=of.span,
    )


_FACTS = made(
    word("facts")
    + need_name("facts")
    + required("(", rule_errors.no_columns)
    + _COLUMN
    + pp.ZeroOrMore(COMMA + _COLUMN)
    + required(")", rule_errors.facts_never_closed)
    + required("from", rule_errors.no_origin)
    + (_CHANGES | Required(QUOTED, rule_errors.no_origin) + pp.Opt(_FILE_COLUMNS))
    + Required(END, errors.after_declaration),
    _facts,
)

DECLARATIONS_OF_RULES: dict[str, pp.ParserElement] = {"facts": _FACTS, "rule": _RULE}
