"""Random trees of the language, and random damage to its texts."""

from __future__ import annotations

from hypothesis import strategies as st

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.lexicon import RESERVED
from wayeb_py.dsl.syntax.precedence import (
    AND,
    ATOM,
    COMPLEMENT,
    INTERSECTION,
    NEGATIVE,
    NOT,
    PRODUCT,
    SEQUENCE,
    SUM,
    enclosed,
    operand_tightness,
)
from wayeb_py.dsl.units import TOO_LONG_S, UNITS

names = st.one_of(
    st.sampled_from(["speed", "fuel", "engine", "off", "heading", "température", "x1"]),
    st.text("abc _-é1", min_size=1, max_size=5),
    st.sampled_from(sorted(RESERVED)),
)
plain_names = st.sampled_from(["near", "prev", "held", "elapsed", "mine", "distance"])
literals = st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?([eE][+-]?[0-9])?", fullmatch=True)
numbers = st.builds(t.Number, literals, st.none() | st.sampled_from(sorted(UNITS)))
texts = st.text(max_size=6).map(t.Text)


def _operands(parts: st.SearchStrategy[t.Expression], at_least: int) -> st.SearchStrategy[tuple[t.Expression, ...]]:
    return st.lists(parts.map(lambda part: enclosed(part, at_least)), min_size=2, max_size=4).map(tuple)


def _operand(part: t.Expression, at_least: int) -> t.Expression:
    """The operand of a sum or product, in parentheses where it needs them."""
    return enclosed(part, operand_tightness(part, at_least))


def _grown(e: st.SearchStrategy[t.Expression]) -> st.SearchStrategy[t.Expression]:
    summand = e.map(lambda part: enclosed(part, SUM))
    whole = st.integers(0, 9)
    return st.one_of(
        st.builds(t.Parentheses, e),
        st.builds(t.Call, plain_names, st.lists(e, max_size=3).map(tuple)),
        st.builds(t.Negative, e.map(lambda part: _operand(part, NEGATIVE))),
        st.builds(
            t.Arithmetic,
            st.sampled_from(["+", "-"]),
            e.map(lambda part: _operand(part, SUM)),
            e.map(lambda part: _operand(part, PRODUCT)),
        ),
        st.builds(
            t.Arithmetic,
            st.sampled_from(["*", "/"]),
            e.map(lambda part: _operand(part, PRODUCT)),
            st.builds(t.Parentheses, e),  # `5 m / s` would be a unit with a space in it
        ),
        st.builds(t.Compare, st.sampled_from([">", ">=", "<", "<=", "=", "!="]), summand, summand),
        st.builds(t.Between, summand, summand, summand, st.booleans()),
        st.builds(t.OneOf, summand, st.lists(summand, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(t.Not, e.map(lambda part: enclosed(part, NOT))),
        st.builds(t.And, _operands(e, NOT)),
        st.builds(t.Or, _operands(e, AND)),
        st.builds(t.Complement, e.map(lambda part: enclosed(part, COMPLEMENT))),
        st.builds(t.Sequence, _operands(e, COMPLEMENT)),
        st.builds(t.Intersection, _operands(e, SEQUENCE)),
        st.builds(t.Union, _operands(e, INTERSECTION)),
        st.builds(t.Iteration, e.map(lambda part: enclosed(part, ATOM)), whole, st.none())
        | st.builds(lambda part, low, more: t.Iteration(enclosed(part, ATOM), low, low + more), e, whole, whole),
        st.builds(lambda part, name: t.Named(t.Parentheses(part), name), e, names),
        st.builds(t.Skip, st.sampled_from(["#", "@"]), st.lists(e, min_size=1, max_size=3).map(tuple)),
    )


expressions: st.SearchStrategy[t.Expression] = st.recursive(
    st.one_of(
        st.builds(t.Name, names),
        numbers,
        texts,
        st.builds(t.Word, st.sampled_from(["any", "none", "true", "false"])),
        st.builds(t.Entry, names, st.text(max_size=4)),
        st.builds(t.Column, names, names),
    ),
    _grown,
    max_leaves=12,
)

conditions = expressions.filter(lambda tree: "Named(" not in repr(tree))  # of rules, whose parts have no names

durations = st.builds(t.Number, literals, st.sampled_from(["s", "min", "h", "d"])).filter(
    lambda one: one.value * UNITS[one.unit or "s"].factor < TOO_LONG_S
)
withins = st.builds(t.Within, durations) | st.integers(1, 99).map(lambda n: t.Within(t.Number(str(n)), True))
emitted = st.one_of(
    names.map(t.Name),
    st.builds(t.Emitted, names, names, st.none() | names),
    st.builds(t.Emitted, st.none(), names, names),
)
emits = st.lists(emitted, min_size=1, max_size=3).map(lambda columns: t.Emit(tuple(columns)))
which_matches = st.builds(t.Which, st.sampled_from(["without overlap", "from all starts", "once from each start"]))
services = st.builds(
    t.Service,
    st.none() | st.builds(t.Priority, st.sampled_from(["high", "normal", "low"])),
    st.none() | st.builds(t.ValidFor, durations, st.sampled_from([None, "mark", "drop"])),
    st.none() | st.builds(t.ShedAfter, durations.filter(lambda one: one.value != 0)),
).filter(lambda service: service != t.Service())
lengths = st.builds(t.Number, literals, st.sampled_from(["m", "km", "nmi"]))
pairs = st.builds(
    t.EachPair,
    st.tuples(names, names),
    names,
    st.none() | names,
    lengths,
    durations,
    st.booleans(),
    st.booleans(),
)
items = st.builds(t.Item, st.sampled_from(["-", "1", "off", "-2.5", "12:30", "a/b"])) | st.builds(
    t.Item, st.text(max_size=4), st.just(True)
)
members = st.builds(t.Member, names, names, st.none() | st.sampled_from(["episode", "newest"]))
unlesses = st.builds(t.Unless, st.lists(members, min_size=1, max_size=2).map(tuple), st.none() | conditions)
some_names = st.lists(names.map(t.Name), min_size=1, max_size=3).map(tuple)
rules = st.builds(
    t.Rule,
    names,
    st.lists(members, min_size=1, max_size=3).map(tuple),
    st.none() | conditions,
    st.lists(unlesses, max_size=2).map(tuple),
    st.none() | st.builds(t.OnceFor, some_names),
    st.none() | st.builds(t.Within, durations),
    st.none() | emits,
    st.booleans(),
    st.none() | services,
)
facts = st.builds(
    t.Facts, names, some_names, st.text(max_size=5), st.none(), st.lists(texts, max_size=2).map(tuple)
) | st.builds(t.Facts, names, some_names, st.none(), names)
moments = st.none() | st.sampled_from(["3h", "90min", "12.5s", "2016-01-12T13:00:00Z"])
matches = st.builds(
    t.ExpectedMatch,
    st.lists(st.integers(0, 99), min_size=1, max_size=4).map(tuple),
    st.sampled_from([None, "+", "-"]),
    moments,
    moments,
    moments,
)
detections = st.builds(t.ExpectedDetection, st.integers(0, 9), st.none() | st.integers(0, 9))
stream_lines = st.one_of(
    st.builds(t.Key, names),
    st.builds(t.Time, names, st.none() | st.sampled_from(["s", "ms", "us", "ns"])),
    st.builds(t.Position, names, names),
    st.builds(t.Motion, names, names),
    st.builds(t.Attr, names, st.sampled_from(["text", "bool", "time"])),
    st.builds(t.Attr, names, st.just("number"), st.none() | st.sampled_from(sorted(UNITS))),
    st.builds(t.Order, names),
    st.builds(t.Lateness, durations),
    st.builds(t.Forget, durations),
    st.just(t.Dedupe()),
    st.just(t.Replace()),
    st.builds(t.Clean, st.sampled_from(["ais", "gps"])),
)
declarations: st.SearchStrategy[t.Declaration] = st.one_of(
    st.builds(t.Let, names, expressions),
    st.builds(
        t.Pattern,
        names,
        expressions,
        st.none() | st.builds(t.ForEach, names, names) | pairs,
        st.none() | withins,
        st.none() | emits,
        st.none() | st.builds(t.On, names),
        st.none() | st.builds(t.Silence, durations) | st.just(t.WordEnd()),
        st.none() | which_matches,
        st.none() | services,
    ),
    st.builds(
        t.Knowledge,
        st.sampled_from(["points", "lines", "areas"]),
        names,
        st.text(max_size=5),
        st.none() | st.text(max_size=5),
    ),
    st.builds(t.Include, st.text(max_size=5)),
    st.builds(t.Stream, names, st.lists(stream_lines, max_size=4).map(tuple)),
    st.builds(
        t.Test,
        names,
        st.lists(st.builds(t.TestLine, st.none() | names, st.lists(items, max_size=3).map(tuple)), max_size=3).map(
            tuple
        ),
        st.lists(detections, max_size=2).map(tuple),
        st.none() | st.builds(t.Ends, st.sampled_from(["3h", "90min", "12.5s", "2016-01-12T13:00:00Z"])),
    ),
    st.builds(
        t.Test, names, st.just(()), st.just(()), st.none(), st.lists(matches, min_size=1, max_size=3).map(tuple)
    ),
    rules,
    facts,
    st.builds(t.Forecast, names, withins, st.none() | st.sampled_from(["0.7", "0.95"]).map(t.Number)),
)
files = st.lists(declarations, max_size=3).map(lambda found: t.File(tuple(found)))
