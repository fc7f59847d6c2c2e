"""A function name from another language becomes a hint what to write instead; so do the names of the older prefix form.

The parser meets such names as text that it cannot read, the checker as calls of functions that do not exist.
"""

from __future__ import annotations

TEXT_FUNCTIONS = frozenset(["startswith", "endswith", "contains", "matches", "substring", "lower", "upper", "regexp"])

FUNCTIONS = {
    **dict.fromkeys(
        ["avg", "mean", "average", "sum", "first", "last"],
        "a letter looks at one event, and at the one before it by `prev(x)`; over the events of a match `emit` "
        "computes: `emit mean(speed), sum(fuel), first(lon)`",
    ),
    **dict.fromkeys(
        ["median", "stddev", "std", "variance", "var", "percentile"],
        "a letter looks at one event, and at the one before it by `prev(x)`; what is computed over several events must "
        "be a column of the events",
    ),
    **dict.fromkeys(["seq", "sequence", "followed_by", "then"], "write `;` between the parts: `a ; b ; c`"),
    "every": "leave it out: a pattern is looked for from every event",
    "count": "write how often a letter comes: `(speed > 5){3,}`",
    **dict.fromkeys(["lag", "previous", "prior", "before"], "write `prev(x)` for the value at the event before"),
    **dict.fromkeys(["lead", "next", "following"], "a later event is a letter of its own, after `;`"),
    **dict.fromkeys(["delta", "diff", "change", "difference"], "write `x - prev(x)`"),
    **dict.fromkeys(
        ["duration", "dt", "timedelta", "time_since", "timediff", "datediff", "interval"],
        "write `elapsed()` for the time since the event before, `within 30 min` for that of a whole match",
    ),
    **dict.fromkeys(["dist", "haversine", "st_distance"], "write `distance(port)`, or `near(port, 500 m)`"),
    **dict.fromkeys(
        ["st_contains", "st_within", "contains_point", "st_intersects", "in_area"], "write `inside(fishing)`"
    ),
    **dict.fromkeys(["isnull", "is_null", "isna", "isnan", "is_missing"], "write `missing(x)`"),
    **dict.fromkeys(["ifnull", "coalesce", "nvl"], "write `missing(x) or …` where a missing value will do"),
    **dict.fromkeys(["now", "today", "current_timestamp"], 'write a fixed time: `time("2016-01-12T13:00:00Z")`'),
    **dict.fromkeys(["timestamp", "date", "to_timestamp", "datetime"], 'write `time("2016-01-12T13:00:00Z")`'),
    **dict.fromkeys(["sqrt", "pow", "exp", "log", "round", "floor", "ceil", "mod"],
                    "write it in Python with `@function`, and name the file by `--functions`"),
    **dict.fromkeys(sorted(TEXT_FUNCTIONS), 'texts are compared whole: `x = "a"` or `x in {"a", "b"}`; for parts of a '
                    "text write a predicate in Python with `@predicate`"),
}  # fmt: skip

PREFIX_HEADS = frozenset([
    "IsEventTypePredicate", "EQ", "GT", "LT", "GTE", "LTE", "BT", "EQStr", "WithinCirclePredicate",
    "OutsideCirclePredicate", "DistanceBetweenPredicate", "TruePredicate",
])  # fmt: skip
IN_PREFIX_FORM = (
    "this is the older prefix form",
    "belongs to a file of its own, without `pattern NAME :=`",
    "`wayeb convert` rewrites such a file",
)
