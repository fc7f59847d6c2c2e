"""What the texts of patterns mean: names, kinds, units, operators, declarations."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from fractions import Fraction

import pytest

from wayeb_py import dsl
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import PatternError

STREAM = """\
stream vehicles {
    key      id
    time     ts in s
    position lon, lat
    attr     engine  text
    attr     speed   number in km/h
    attr     sog     number in kn
    attr     fuel    number
    attr     heading number in deg
    attr     course  number in deg
    attr     alarm   bool
    attr     sent    time
}
points port from "ports.csv"
lines  coast from "coast.geojson"
areas  city from "cities.geojson"
"""
SPEED = m.Attribute("speed", "number", "km/h")
SOG = m.Attribute("sog", "number", "kn")
FUEL = m.Attribute("fuel", "number")
ENGINE = m.Attribute("engine", "text")
ALARM = m.Attribute("alarm", "bool")
SENT = m.Attribute("sent", "time")
HEADING, COURSE = m.Attribute("heading", "number", "deg"), m.Attribute("course", "number", "deg")


def number(value: str | int) -> m.Constant:
    exact = Fraction(value)
    return m.Constant(exact, "number")


def word(value: str) -> m.Constant:
    return m.Constant(value, "text")


def predicate(text: str, before: str = STREAM) -> m.Predicate:
    """What a predicate means in the stream above."""
    letter = dsl.read(f"{before}pattern P := ({text})\n").patterns[0].regex
    assert isinstance(letter, m.Letter)
    return letter.predicate


def regex(text: str, before: str = 'let a = k = "a"\nlet b = k = "b"\nlet c = k = "c"\n') -> m.Regex:
    """What a regex over the letters a, b and c means."""
    return dsl.read(f"{before}pattern P := {text}\n").patterns[0].regex


def errors(text: str) -> str:
    with pytest.raises(PatternError) as caught:
        dsl.read(text)
    return str(caught.value)


COMPARISONS: dict[str, m.Predicate] = {
    "speed > 50": m.Compare(">", SPEED, number(50)),
    "50 < speed": m.Compare(">", SPEED, number(50)),
    "speed ≥ 0.1": m.Compare(">=", SPEED, number("0.1")),
    "speed ≤ 1e2": m.Compare("<=", SPEED, number(100)),
    "speed ≠ -5": m.Compare("!=", SPEED, number(-5)),
    "speed > 10 m/s": m.Compare(">", SPEED, number(36)),
    "speed > 1 kn": m.Compare(">", SPEED, number("1.852")),
    "sog < 1 km/h": m.Compare("<", SOG, number(Fraction(1000, 1852))),  # type: ignore[arg-type]
    "speed > sog": m.Compare(">", SPEED, m.Arithmetic("*", (SOG, number("1.852")))),
    "speed > fuel": m.Compare(">", SPEED, FUEL),
    "speed > 2 * 30 + 1": m.Compare(">", SPEED, number(61)),
    "speed * 2 > 10 m/s": m.Compare(">", m.Arithmetic("*", (SPEED, number(2))), number(36)),
    "speed + 5 m/s > 50": m.Compare(">", m.Arithmetic("+", (SPEED, number(18))), number(50)),
    "speed / sog > 2": m.Compare(
        ">", m.Arithmetic("*", (m.Arithmetic("/", (SPEED, SOG)), number(Fraction(1000, 1852)))), number(2)  # type: ignore[arg-type]
    ),
    "elapsed() > 30 min": m.Compare(">", m.Elapsed(), number(1800)),
    "30 min < elapsed()": m.Compare(">", m.Elapsed(), number(1800)),
    "elapsed() > 1.5 h": m.Compare(">", m.Elapsed(), number(5400)),
    "held(engine) >= 1 d": m.Compare(">=", m.Held(ENGINE), number(86400)),
    "moved() < 1 nmi": m.Compare("<", m.Moved(), number(1852)),
    "moved() / elapsed() > 36 km/h": m.Compare(">", m.Arithmetic("/", (m.Moved(), m.Elapsed())), number(10)),
    "moved() > fuel * 1 km": m.Compare(
        ">", m.Moved(), m.Arithmetic("*", (m.Arithmetic("*", (FUEL, number(1))), number(1000)))
    ),
    "prev(speed) > 10 m/s": m.Compare(">", m.Previous(SPEED, "number"), number(36)),
    "speed - prev(speed) > 5": m.Compare(
        ">", m.Arithmetic("-", (SPEED, m.Previous(SPEED, "number"))), number(5)
    ),
    "abs(-speed) > 5": m.Compare(">", m.Arithmetic("abs", (m.Arithmetic("neg", (SPEED,)),)), number(5)),
    "min(speed, 10 m/s) > 5": m.Compare(">", m.Arithmetic("min", (SPEED, number(36))), number(5)),
    "max(speed, sog, fuel) > 5": m.Compare(
        ">", m.Arithmetic("max", (SPEED, m.Arithmetic("*", (SOG, number("1.852"))), FUEL)), number(5)
    ),
    "angle(heading, course) > 30": m.Compare(">", m.Arithmetic("angle", (HEADING, COURSE)), number(30)),
    "angle(heading, 350) > 30 deg": m.Compare(">", m.Arithmetic("angle", (HEADING, number(350))), number(30)),
    'hour("Europe/Athens") >= 22.5': m.Compare(">=", m.Hour("Europe/Athens"), number("22.5")),
    "distance(port) in 7..10 km": m.And(
        (
            m.Compare(">=", m.Distance(m.Places("port")), number(7000)),
            m.Compare("<", m.Distance(m.Places("port")), number(10000)),
        )
    ),
    'distance(port["Brest"]) < 1 km': m.Compare("<", m.Distance(m.Places("port", "Brest")), number(1000)),
    "distance(point(-4.47, 48.38)) < 1 km": m.Compare(
        "<", m.Distance(m.Point(Fraction("-4.47"), Fraction("48.38"))), number(1000)
    ),
    'engine = "off"': m.Compare("=", ENGINE, word("off")),
    r'engine = "a\"b\\\u00e9\n"': m.Compare("=", ENGINE, word('a"b\\é\n')),
    "alarm = true": m.Compare("=", ALARM, m.Constant(True, "bool")),
    "alarm": m.Compare("=", ALARM, m.Constant(True, "bool")),
    'sent > time("1970-01-02T00:00:00Z")': m.Compare(">", SENT, m.Constant(Fraction(86400), "time")),
    'sent > time("1970-01-01T02:00:00.25+02:00")': m.Compare(">", SENT, m.Constant(Fraction(1, 4), "time")),
    "sent - prev(sent) > 1 min": m.Compare(
        ">", m.Arithmetic("-", (SENT, m.Previous(SENT, "time"))), number(60)
    ),
    'ts > time("1970-01-01T01:00:00Z")': m.Compare(">", m.Attribute("ts", "number", "s"), number(3600)),
    "ts > 2 h": m.Compare(">", m.Attribute("ts", "number", "s"), number(7200)),
    "lon > 5": m.Compare(">", m.Attribute("lon", "number", "deg"), number(5)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), COMPARISONS.items(), ids=COMPARISONS.keys())
def test_a_comparison_means(text: str, expected: m.Predicate) -> None:
    assert predicate(text) == expected


SLOW = m.Compare("<", SPEED, number(5))
OFF = m.Compare("=", ENGINE, word("off"))
LOW = m.Compare("<", FUEL, number(1))
CONNECTIVES: dict[str, m.Predicate] = {
    "speed in 5..9": m.And((m.Compare(">=", SPEED, number(5)), m.Compare("<", SPEED, number(9)))),
    "speed not in 5..9": m.Not(m.And((m.Compare(">=", SPEED, number(5)), m.Compare("<", SPEED, number(9))))),
    'engine in {"on", "off"}': m.Or((m.Compare("=", ENGINE, word("on")), OFF)),
    'engine not in {"off"}': m.Not(OFF),
    'speed < 5 and engine = "off" or fuel < 1': m.Or((m.And((SLOW, OFF)), LOW)),
    'speed < 5 or engine = "off" and fuel < 1': m.Or((SLOW, m.And((OFF, LOW)))),
    'speed < 5 ∨ ¬ engine = "off" ∧ fuel < 1': m.Or((SLOW, m.And((m.Not(OFF), LOW)))),
    'not (speed < 5 or engine = "off")': m.Not(m.Or((SLOW, OFF))),
    "not not speed < 5": m.Not(m.Not(SLOW)),
    "speed < 5 and (fuel < 1 and alarm)": m.And((SLOW, m.And((LOW, m.Compare("=", ALARM, m.Constant(True, "bool")))))),
    "missing(fuel) or any": m.Or((m.Missing(FUEL), m.Always())),
    "none and ⊤ and ⊥": m.And((m.Never(), m.Always(), m.Never())),
    "true or false": m.Or((m.Always(), m.Never())),
    "1 < 2 and speed < 5": m.And((m.Always(), SLOW)),
    '"a" = "b" or speed < 5': m.Or((m.Never(), SLOW)),
    "near(coast, 300 m)": m.Near(m.Places("coast"), Fraction(300)),
    "near(point(0, 0), 1 nmi)": m.Near(m.Point(Fraction(0), Fraction(0)), Fraction(1852)),
    "inside(city)": m.Inside(m.Places("city")),
    'inside(city["Brest"])': m.Inside(m.Places("city", "Brest")),
}


@pytest.mark.parametrize(("text", "expected"), CONNECTIVES.items(), ids=CONNECTIVES.keys())
def test_a_predicate_means(text: str, expected: m.Predicate) -> None:
    assert predicate(text) == expected


A, B, C = (m.Letter(m.Compare("=", m.Attribute("k", "text"), word(letter))) for letter in "abc")
ANY = m.Letter(m.Always())
REGEXES: dict[str, m.Regex] = {
    "a": A,
    "(a)": A,
    '(k = "a")': A,
    "any": ANY,
    "a ; b ; c": m.Sequence((A, B, C)),
    "a · b": m.Sequence((A, B)),
    "a ; (b ; c)": m.Sequence((A, m.Sequence((B, C)))),
    "a | b & c ; a": m.Union((A, m.Intersection((B, m.Sequence((C, A)))))),
    "(a | b) ; c": m.Sequence((m.Union((A, B)), C)),
    "!a*": m.Complement(m.Iteration(A, 0, None)),
    "(!a)*": m.Iteration(m.Complement(A), 0, None),
    "!(a ; b) & c": m.Intersection((m.Complement(m.Sequence((A, B))), C)),
    "!!a": m.Complement(m.Complement(A)),
    "a+ ; b? ; c{3}": m.Sequence((m.Iteration(A, 1, None), m.Iteration(B, 0, 1), m.Iteration(C, 3, 3))),
    "a{2,} ; b{2,5}": m.Sequence((m.Iteration(A, 2, None), m.Iteration(B, 2, 5))),
    "a**": m.Iteration(m.Iteration(A, 0, None), 0, None),
    "a+ | b": m.Union((m.Iteration(A, 1, None), B)),
    "#(a, b ; c)": m.SkipAny((A, m.Sequence((B, C)))),
    "@(a, b | c)+": m.Iteration(m.SkipNext((A, m.Union((B, C)))), 1, None),
    "(a and not b)": m.Letter(m.And((A.predicate, m.Not(B.predicate)))),
}


@pytest.mark.parametrize(("text", "expected"), REGEXES.items(), ids=REGEXES.keys())
def test_a_regex_means(text: str, expected: m.Regex) -> None:
    assert regex(text) == expected


def test_a_let_names_a_value_a_predicate_or_a_regex() -> None:
    text = "let limit = 2 * 25\nlet fast = v > limit\nlet twice = fast ; fast\nlet pair = (fast) and v < 2 * limit\n"
    fast = m.Compare(">", m.Attribute("v", "number"), number(50))
    assert regex("twice ; pair", text) == m.Sequence(
        (
            m.Sequence((m.Letter(fast), m.Letter(fast))),
            m.Letter(m.And((fast, m.Compare("<", m.Attribute("v", "number"), number(100))))),
        )
    )


def test_a_let_of_a_bool_is_a_named_predicate() -> None:
    alarm = m.Letter(m.Compare("=", ALARM, m.Constant(True, "bool")))
    assert regex("ringing ; (ringing)", f"{STREAM}let ringing = alarm\n") == m.Sequence((alarm, alarm))


def test_a_time_column_keeps_its_unit_when_an_attr_line_names_it() -> None:
    before = "stream s {\n    key id\n    time ts in ms\n    attr ts number\n}\n"
    assert predicate("ts > 2 s", before) == m.Compare(">", m.Attribute("ts", "number", "ms"), number(2000))


def test_a_let_may_come_after_its_use() -> None:
    assert regex("later", 'let later = first\nlet first = k = "a"\n') == A


def test_letters_know_where_they_stand() -> None:
    text = 'let a = k = "a"\npattern P := a ; (k = "b")\n'
    sequence = dsl.read(text).patterns[0].regex
    assert isinstance(sequence, m.Sequence)
    spans = [part.span for part in sequence.parts]
    assert [text[span.start : span.end] for span in spans] == ["a", '(k = "b")']


def attributes_in(root: object) -> list[m.Attribute]:
    """Every mention of an attribute in a meaning."""
    found, waiting = [], [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, m.Attribute):
            found.append(item)
        elif isinstance(item, tuple):
            waiting.extend(item)
        elif is_dataclass(item):
            waiting.extend(getattr(item, part.name) for part in fields(item))
    return found


KINDS = {
    "(x > 1)": "number",
    '(x = "a")': "text",
    "(x = true)": "bool",
    "(x)": "bool",
    "(x and y)": "bool",
    '(x > time("2016-01-12"))': "time",
    "(x + y > 1)": "number",
    "(prev(x) = 2)": "number",
    '(x in {"a", "b"})': "text",
    "(x = y) ; (y = 1)": "number",
    "(x in 1..2)": "number",
    "(missing(x))": None,
    "(held(x) > 1 min)": None,
    "(x = y)": None,
}


@pytest.mark.parametrize(("text", "kind"), KINDS.items(), ids=KINDS.keys())
def test_the_kind_of_an_attribute_comes_from_its_use(text: str, kind: str | None) -> None:
    found = dsl.read(f"pattern P := {text}").patterns[0].regex
    assert {attribute.kind for attribute in attributes_in(found) if attribute.name == "x"} == {kind}


def test_the_stream_block_is_read_whole() -> None:
    stream = dsl.read(
        "stream ships {\n key mmsi\n time t in ms\n position x, y\n order row\n lateness 10 min\n forget after 30 d\n"
        " dedupe\n clean ais\n attr `draught of ship` number in m\n}\npattern P := (`draught of ship` > 3)"
    ).stream
    assert stream == m.Stream(
        "ships", "mmsi", "t", "ms", ("x", "y"), "row", Fraction(600), Fraction(30 * 86400), True, "ais",
        (m.Attribute("draught of ship", "number", "m"),),
    )  # fmt: skip


def test_the_caller_names_key_and_time_without_a_stream_block() -> None:
    meaning = dsl.read("pattern P := (x > 1)", key="id", time="t", time_unit="ms")
    assert meaning.stream == m.Stream(key="id", time="t", time_unit="ms")


def test_the_caller_wins_over_the_stream_block() -> None:
    meaning = dsl.read("stream s { key a time b in s }\npattern P := (x > 1)", key="id", time="t")
    assert (meaning.stream.key, meaning.stream.time, meaning.stream.time_unit) == ("id", "t", None)


WINDOWS = {
    "within 30 min": m.Window(seconds=Fraction(1800)),
    "within 0.5 h": m.Window(seconds=Fraction(1800)),
    "within 10 events": m.Window(events=10),
    "within 1 event": m.Window(events=1),
    "": None,
}


@pytest.mark.parametrize(("text", "window"), WINDOWS.items(), ids=WINDOWS.keys())
def test_a_window_is_a_time_or_a_number_of_events(text: str, window: m.Window | None) -> None:
    pattern = dsl.read(f"pattern P := (x > 1) ; any {text} emit x, `a-b`").patterns[0]
    assert (pattern.window, pattern.emit) == (window, ("x", "a-b"))


def test_a_pattern_for_each_place_knows_its_row() -> None:
    pattern = dsl.read(f"{STREAM}pattern P for each p in port := (distance(p) < 5 km and speed > p.limit)").patterns[0]
    assert pattern.each == ("p", "port")
    assert pattern.regex == m.Letter(
        m.And(
            (
                m.Compare("<", m.Distance(m.Places("port", each=True)), number(5000)),
                m.Compare(">", SPEED, m.PlaceColumn("port", "limit", "number")),
            )
        )
    )


def test_knowledge_is_declared_with_its_file() -> None:
    known = dsl.read(f"{STREAM}pattern P := (speed > 1)").knowledge
    assert [(k.name, k.shape, k.path) for k in known] == [
        ("port", "points", "ports.csv"),
        ("coast", "lines", "coast.geojson"),
        ("city", "areas", "cities.geojson"),
    ]


def test_users_functions_are_called_by_their_signatures() -> None:
    functions = {
        "knots": m.Signature("knots", ("number",), "number"),
        "matches": m.Signature("matches", ("text", "text"), None),
    }
    meaning = dsl.read('pattern P := (knots(v) > 3 and matches(name, "F*"))', functions=functions)
    assert meaning.patterns[0].regex == m.Letter(
        m.And(
            (
                m.Compare(">", m.FunctionCall("knots", (m.Attribute("v", "number"),), "number"), number(3)),
                m.PredicateCall("matches", (m.Attribute("name", "text"), word("F*"))),
            )
        )
    )


def test_an_example_has_values_times_and_detections() -> None:
    (example,) = dsl.read(
        f'{STREAM}pattern P := (speed > 1)\ntest P {{\n speed: 1 - 2.5 // later\n engine: off "-" on\n'
        " at: 0 10min 1.5h\n detects at 2 from 0, 1\n}"
    ).examples
    assert example.columns == (("speed", ("1", None, "2.5")), ("engine", ("off", "-", "on")))
    assert list(example.times_s) == [Fraction(0), Fraction(600), Fraction(5400)]
    assert example.detects == (m.Expected(2, 0), m.Expected(1))


def test_events_of_an_example_are_a_second_apart_unless_it_says_otherwise() -> None:
    (example,) = dsl.read("pattern P := (x > 1)\ntest P { x: 1 2 3 detects nothing }").examples
    assert list(example.times_s) == [Fraction(0), Fraction(1), Fraction(2)]
    assert example.detects == ()


def test_a_column_with_a_reserved_name_stands_in_backquotes() -> None:
    assert regex("(`in` > 1 and `two words` < 2)", "") == m.Letter(
        m.And(
            (
                m.Compare(">", m.Attribute("in", "number"), number(1)),
                m.Compare("<", m.Attribute("two words", "number"), number(2)),
            )
        )
    )


def test_words_are_special_only_where_they_belong() -> None:
    meaning = dsl.read(
        "stream time { key key time time }\npattern at := (at > 1 and key = 2 and events = 3 and from = 4)"
    )
    assert meaning.stream.key == "key"
    assert meaning.patterns[0].name == "at"


def test_line_ends_mean_nothing_inside_a_declaration() -> None:
    text = 'pattern P :=\n  (k = "a")\n ;\n\n any // then\n\n within\n 2\n h\n'
    assert dsl.read(text).patterns == dsl.read('pattern P := (k = "a") ; any within 2 h').patterns


QUIET = [
    'let off = k = "a"\npattern P := !(off ; any) & any{3}',
    'let off = k = "a"\npattern P := any ; !(off+) ; any',
    'let off = k = "a"\npattern P := !off',
    "pattern P := any ; !none ; any",
    f"{STREAM}pattern P := (not missing(lon) and not near(port, 1 km))",
    f"{STREAM}pattern P := (speed > 1 and (not near(port, 1 km) or not inside(city)) and not missing(lat))",
    f"{STREAM}pattern P := (not (missing(lon) or near(port, 1 km)))",
    f"{STREAM}pattern P := (not not near(port, 1 km))",
]
WARNED = [
    'let off = k = "a"\npattern P := any ; !off ; any',
    'let off = k = "a"\npattern P := #(any, !off)',
    'let off = k = "a"\npattern P := (!off)+',
    'pattern P := any ; !(k = "a") ; any',
    f"{STREAM}pattern P := (not near(port, 1 km))",
    f"{STREAM}pattern P := (not inside(city) and speed > 1)",
    f"{STREAM}pattern P := (distance(port) not in 1..2 km)",
    f"{STREAM}pattern P := (not distance(port) + 1 km < 3 km)",
    f"{STREAM}let away = not near(port, 1 km)\npattern P := away ; (speed > 1)",
    "pattern P := (x > 1)\ntest P { x: 1 2 y: 3 4 detects at 1 }",
]


@pytest.mark.parametrize("text", QUIET)
def test_a_sound_file_has_no_warnings(text: str) -> None:
    assert dsl.read(text).warnings == ()


@pytest.mark.parametrize("text", WARNED)
def test_a_likely_slip_is_a_warning(text: str) -> None:
    assert len(dsl.read(text).warnings) == 1


REFUSED = {
    "pattern P := (x = prev(y > 1))": "`y > 1` is a predicate",
    "pattern P := ((x > 1) = true)": "`(x > 1)` is a predicate and cannot be compared",
    'pattern P := (prev("a") = x)': "the same at every event",
    'pattern P := (time("2016-13-01") < t)': "not a time that can be read",
    "pattern P := (hour(x) > 1)": "takes the name of a time zone",
    "let a = (x > 1) ; (x > 2)\npattern P := (a > 3)": "`a` is a regex and cannot be compared",
    "let a = (x > 1) ; (x > 2)\npattern P := (x > 1 and a)": "`and` joins predicates",
    "let a = b > 1\npattern P := (missing(a))": "`a` is a predicate and cannot be missing",
    "pattern P := (min(x) > 1)": "a pattern that remembers events needs a window",
    "pattern P := (x * 1 km > 3)": "`x * 1 km` is a length, and `3` has no unit",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=REFUSED.keys())
def test_what_makes_no_sense_is_refused(text: str, message: str) -> None:
    assert message in errors(text)


def test_reading_is_parsing_and_checking() -> None:
    text = f'{STREAM}let off = engine = "off"\npattern P := off ; !off\ntest P {{ engine: off on detects at 1 }}'
    assert dsl.check(dsl.parse(text)) == dsl.read(text)


def test_a_file_that_names_a_function_of_the_language_by_mistake_keeps_the_language() -> None:
    functions = {"prev": m.Signature("prev", ("number",), "number")}
    meaning = dsl.read("pattern P := (prev(x) > 1)", functions=functions)
    assert meaning.patterns[0].regex == m.Letter(
        m.Compare(">", m.Previous(m.Attribute("x", "number"), "number"), number(1))
    )
