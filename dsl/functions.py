"""The functions of the language, each declared once: its arguments, its result, what it needs, what it says.

This table says how messages write a call, how many arguments it may have, and which part of the tree it becomes; the
language reference prints it. The checker adds checks of each function's arguments (`semantics/calls/`), the engine adds
the evaluation, both by name; tests hold the three to each other. *Not taken*: a class for each function with methods
for all of it, since the language knows no evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wayeb_py.dsl import predicates as p
from wayeb_py.dsl.units import DEGREES, HOURS, METRES, SECONDS, UNITS, Unit

Takes = Literal[
    "number",
    "value",
    "value or predicate",
    "bearing",
    "degrees",
    "zone",
    "instant",
    "places",
    "areas",
    "areas or lines",
    "length",
    "how many",
    "event",
    "pattern",
    "entity",
    "member",
]
Gives = Literal["number", "same", "predicate", "time", "places"]
Need = Literal[
    "position", "previous event", "places", "other patterns", "several entities", "motion", "members of a rule",
    "a named event",
]  # fmt: skip

NUMBER_OF_MANY = 99


@dataclass(frozen=True, slots=True)
class Function:
    """One way to call a function; a function with two ways, such as `distance`, is declared twice.

    `becomes` is the part of the tree that the call makes of its arguments; None where the checker decides. In a pair a
    function of one entity's event takes `a` or `b` first, and `whose` says how: `both` where the call may leave it out,
    `neither` where a pair cannot ask the function.
    """

    name: str
    usage: str
    takes: tuple[Takes, ...]
    gives: Gives
    says: str
    unit: Unit | None = None
    needs: tuple[Need, ...] = ()
    becomes: type[Any] | None = None
    more: bool = False  # the last argument may come again and again
    whose: Literal["", "one", "both", "neither"] = ""
    otherwise: Mapping[int, str] = field(default_factory=dict)  # the remedy for another number of arguments

    @property
    def of_several(self) -> bool:
        """Whether the function is about the two of a pair or about members of a rule, and never about one event."""
        return "several entities" in self.needs or "members of a rule" in self.needs

    def accepts(self, n_arguments: int) -> bool:
        """Whether a call may have `n_arguments` arguments."""
        return len(self.takes) <= n_arguments <= (NUMBER_OF_MANY if self.more else len(self.takes))


# Allen's relations of two intervals, each from `start_ts` to `ts`; that of an event has length 0.
_ALLEN = {
    "before": "x ends before y starts",
    "meets": "x ends when y starts",
    "overlaps": "x starts before y, and ends after y has started and before y ends",
    "during": "x starts after y and ends before y",
    "starts": "x and y start together, and x ends before y",
    "finishes": "x and y end together, and x starts after y",
    "same_time": "x and y start together and end together",
}

FUNCTIONS: tuple[Function, ...] = (
    Function("abs", "abs(x)", ("number",), "same", "x without its sign"),
    Function(
        "min",
        "min(a, b)",
        ("number", "number"),
        "same",
        "the least of two or more",
        more=True,
    ),
    Function(
        "max",
        "max(a, b)",
        ("number", "number"),
        "same",
        "the greatest of two or more",
        more=True,
    ),
    Function(
        "angle",
        "angle(a, b)",
        ("bearing", "bearing"),
        "number",
        "smallest difference of two bearings, 0 to 180",
        DEGREES,
    ),
    Function(
        "prev",
        "prev(x)",
        ("value",),
        "same",
        "x at the previous event; missing at the first",
        needs=("previous event",),
        becomes=p.Previous,
    ),
    Function(
        "prev",
        "prev(x, 3)",
        ("value", "how many"),
        "same",
        "x so many events before, from 1 to 100; missing where there were not so many",
        needs=("previous event",),
    ),
    Function(
        "elapsed",
        "elapsed()",
        (),
        "number",
        "time since the previous event; missing at the first",
        SECONDS,
        ("previous event",),
        p.Elapsed,
        otherwise={1: "it is called as `elapsed()`, or, of an event that an earlier letter names, `elapsed(x)`"},
    ),
    Function(
        "moved",
        "moved()",
        (),
        "number",
        "great-circle distance from the previous event; missing at the first",
        METRES,
        ("position", "previous event"),
        p.Moved,
        whose="neither",
    ),
    Function(
        "held",
        "held(x)",
        ("value or predicate",),
        "number",
        "time since x took the value that it has now, or a predicate the truth value; 0 at the first event",
        SECONDS,
        ("previous event",),
        p.Held,
    ),
    Function(
        "hour",
        'hour("Europe/Athens")',
        ("zone",),
        "number",
        "hour of the day there, 0 to 24, of the event's time",
        HOURS,
        becomes=p.Hour,
    ),
    Function(
        "near",
        "near(coast, 300 m)",
        ("places", "length"),
        "predicate",
        "the position is at most that far from one of them; inside an area it is 0 away",
        needs=("position", "places"),
        becomes=p.Near,
        whose="both",
        otherwise={1: "it is called as `near(coast, 300 m)`; how far away they are is `distance(coast)`"},
    ),
    Function(
        "inside",
        "inside(fishing)",
        ("areas",),
        "predicate",
        "inside one of them; on the border counts as inside",
        needs=("position", "places"),
        becomes=p.Inside,
        whose="both",
        otherwise={2: "it is called as `inside(fishing)`; within a distance of them is `near(fishing, 300 m)`"},
    ),
    Function(
        "distance",
        "distance(p)",
        ("places",),
        "number",
        "great-circle distance to the nearest of them",
        METRES,
        ("position", "places"),
        p.Distance,
        whose="one",
    ),
    Function(
        "crossed",
        "crossed(zone)",
        ("areas or lines",),
        "predicate",
        "the straight way in lon/lat from the previous position to this one touches one of the areas, or crosses one "
        "of the lines; false at a first event and where a position is missing",
        needs=("position", "previous event", "places"),
        becomes=p.Crossed,
        whose="both",
        otherwise={2: "it is called as `crossed(zone)`; how near the way comes is `passed(buoy, 500 m)`"},
    ),
    Function(
        "passed",
        "passed(buoy, 500 m)",
        ("places", "length"),
        "predicate",
        "that way comes so near to one of the points or lines",
        needs=("position", "previous event", "places"),
        becomes=p.Passed,
        whose="both",
    ),
    Function("point", "point(-4.47, 48.38)", ("degrees", "degrees"), "places", "a place by its longitude and latitude"),
    Function("missing", "missing(x)", ("value",), "predicate", "x is null or NaN", becomes=p.Missing),
    Function("time", 'time("2016-01-12T13:00:00Z")', ("instant",), "time", "a moment"),
    Function(
        "detected",
        "detected(P)",
        ("pattern",),
        "predicate",
        "the pattern P is detected at this event; `detected(a, P)` in a pair",
        needs=("other patterns",),
        becomes=p.Detected,
        whose="one",
    ),
    Function(
        "since",
        "since(P)",
        ("pattern",),
        "number",
        "time since the pattern P was last detected, 0 at that event; missing before the first",
        SECONDS,
        ("other patterns",),
        p.Since,
        whose="neither",
    ),
    Function(
        "distance",
        "distance(a, b)",
        ("entity", "entity"),
        "number",
        "great-circle distance between the two of a pair",
        METRES,
        ("position", "several entities"),
        p.Separation,
    ),
    Function(
        "bearing",
        "bearing(a, b)",
        ("entity", "entity"),
        "number",
        "bearing of b from a, 0 to 360",
        DEGREES,
        ("position", "several entities"),
        p.Bearing,
    ),
    Function(
        "closing",
        "closing(a, b)",
        ("entity", "entity"),
        "number",
        "speed at which their distance shrinks",
        UNITS["m/s"],
        ("position", "several entities"),
        p.Closing,
    ),
    Function(
        "cpa",
        "cpa(a, b)",
        ("entity", "entity"),
        "number",
        "their distance at the closest point of approach, if both keep speed and course",
        METRES,
        ("position", "several entities", "motion"),
        p.Cpa,
    ),
    Function(
        "tcpa",
        "tcpa(a, b)",
        ("entity", "entity"),
        "number",
        "time from now until that point; 0 where it is past",
        SECONDS,
        ("position", "several entities", "motion"),
        p.Tcpa,
    ),
    Function(
        "age",
        "age(a)",
        ("entity",),
        "number",
        "time since the newest event of a",
        SECONDS,
        ("several entities",),
        p.Age,
    ),
    Function(
        "reports",
        "reports(a)",
        ("entity",),
        "predicate",
        "this event of the pair is one of a",
        needs=("several entities",),
        becomes=p.Reports,
    ),
    Function(
        "distance",
        "distance(x, y)",
        ("member", "member"),
        "number",
        "great-circle distance between the rows of two members",
        METRES,
        ("position", "members of a rule"),
        p.Apart,
    ),
    *(
        Function(name, f"{name}(x, y)", ("member", "member"), "predicate", says, needs=("members of a rule",))
        for name, says in _ALLEN.items()
    ),
)

OF_NAMED_EVENTS: tuple[Function, ...] = (
    Function("elapsed", "elapsed(x)", ("event",), "number", "time since the event that an earlier letter calls x",
             SECONDS, ("a named event",), p.ElapsedSince),
    Function("distance", "distance(x)", ("event",), "number", "great-circle distance from the event that an earlier "
             "letter calls x", METRES, ("position", "a named event"), p.DistanceFrom),
)  # fmt: skip
"""The functions of an event that an earlier letter of the match names: `(R) as x`."""

MEASURES: dict[str, Function] = {
    measure.name: measure
    for measure in (
        Function("count", "count()", (), "number", "how many events the match has; `count(x)` how many of them have x, "
                 "`count(speed > 50)` for how many a predicate holds"),
        Function("duration", "duration()", (), "number", "time from the first to the last event", SECONDS),
        Function("travelled", "travelled()", (), "number", "way from the first to the last event, great-circle "
                 "distances from event to event; 0 for one event", METRES, ("position", "previous event")),
        Function("first", "first(x)", ("value",), "same", "x at the first event; missing where it is missing there"),
        Function("last", "last(x)", ("value",), "same", "x at the last event; missing where it is missing there"),
        Function("min", "min(x)", ("number",), "same", "the least x"),
        Function("max", "max(x)", ("number",), "same", "the greatest x"),
        Function("sum", "sum(x)", ("number",), "same", "the sum of x, added up in the order of the events"),
        Function("mean", "mean(x)", ("number",), "same", "that sum over the number of events that have x"),
    )
}  # fmt: skip
"""The measures by name: `emit` computes them over the events of a match, letters over the match so far; `min` and `max`
of several values are functions as well."""

_BY_NAME: dict[str, tuple[Function, ...]] = {}
for _function in FUNCTIONS:
    _BY_NAME[_function.name] = (*_BY_NAME.get(_function.name, ()), _function)

_BY_PART: dict[type[Any], Function] = {
    function.becomes: function for function in (*FUNCTIONS, *OF_NAMED_EVENTS) if function.becomes is not None
}

USAGE: dict[str, str] = {name: ways[0].usage for name, ways in _BY_NAME.items()}
"""How messages write a call of each function: by the first way to call it."""


def ways_to_call(name: str) -> tuple[Function, ...]:
    """The declarations of a function; none where the language does not have it."""
    return _BY_NAME.get(name, ())


def function_of(part: Any) -> Function | None:
    """The function that a part of the tree is a call of."""
    if isinstance(part, p.Arithmetic):
        return _BY_NAME.get(part.operator, (None,))[0]
    return _BY_PART.get(type(part))


def needs(part: Any, what: Need) -> bool:
    """Whether a part of the tree itself needs the position, the previous event, …, not counting what it holds."""
    function = _BY_PART.get(type(part))
    return function is not None and what in function.needs
