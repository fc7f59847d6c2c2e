"""Random files with rules, and events for them; what the oracle of rules expects, and what the engine gives.

Rules have one to five members over events, detections, silences, pairs, episodes, newest rows, facts and other rules,
linked at random, with up to two `unless`. Those that the checker refuses are drawn again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa

import wayeb_py
from tests.oracle import Column
from tests.oracle_several import Sent
from tests.rules.oracle_matches import Match, Recogniser
from tests.rules.rule_inputs import FileInputs
from tests.several.files import NEAR, RADAR, VESSELS, _events
from wayeb_py import dsl
from wayeb_py.errors import PatternError
from wayeb_py.patterns import Patterns

REGISTER = pa.schema(
    [("id", pa.int64()), ("at", pa.int64()), ("mmsi", pa.int64()), ("flag", pa.string()), ("op", pa.string())]
)
SCHEMAS = {"vessels": VESSELS, "radar": RADAR, "register": REGISTER}
_NUMBERS = ("lon", "lat", "x")
COLUMNS = [
    {"mmsi": Column("integer"), "ts": Column("integer"), **{name: Column("float") for name in _NUMBERS}},
    {"track": Column("text"), "t": Column("integer"), **{name: Column("float") for name in ("px", "py", "x")}},
    {"id": Column("integer"), "at": Column("integer"), "mmsi": Column("integer"), "flag": Column("text"),
     "op": Column("text")},
]  # fmt: skip
PATTERNS = {
    "Slow": "pattern Slow on vessels := (x < 2){2,} within 30 s",
    "Track": "pattern Track on radar := (x > 1){2,}",
    "Quiet": "pattern Quiet on vessels := (x > 1) ; silence 5 s",
    "Near": f"pattern Near for each pair a, b in vessels {NEAR} := (distance(a, b) < 500 m){{2,}}",
    "Seen": f"pattern Seen for each pair a in vessels, b in radar {NEAR} := (a.x > b.x) emit b.x as x",
    "Lost": f"pattern Lost for each pair a, b in vessels {NEAR} := any ; silence of b 6 s",
}
OWNERS: list[dict[str, Any]] = [
    {"mmsi": 3, "company": "A"}, {"mmsi": 20, "company": "B"}, {"mmsi": 3, "company": "A"},
    {"mmsi": 100, "company": None}, {"mmsi": 20, "company": "A"},
]  # fmt: skip
RIVALS: list[dict[str, Any]] = [{"one": "A", "other": "B"}, {"one": "B", "other": "B"}, {"one": None, "other": "A"}]


@dataclass(frozen=True)
class Kind:
    """What a member can range over: how it is written, its numbers, whole numbers and texts, and what it has."""

    of: str
    whole: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    real: tuple[str, ...] = ()
    has_time: bool = True
    has_place: bool = False


KINDS = {
    "v": Kind("vessels", ("entity",), (), ("x",), has_place=True),
    "r": Kind("radar", (), ("entity",), ("x",), has_place=True),
    "nv": Kind("newest of vessels", ("entity",), (), ("x",), has_place=True),
    "nr": Kind("newest of radar", (), ("entity",), ("x",), has_place=True),
    "s": Kind("Slow", ("entity", "seq"), (), (), has_place=True),
    "t": Kind("Track", (), ("entity",), (), has_place=True),
    "q": Kind("Quiet", ("entity",), (), (), has_place=True),
    "n": Kind("Near", ("entity", "other"), (), (), has_place=True),
    "e": Kind("Seen", ("seq",), (), ("x",), has_place=True),
    "l": Kind("Lost", ("entity", "other"), (), ()),
    "es": Kind("episode of Slow", ("entity", "n_detections"), (), (), has_place=True),
    "en": Kind("episode of Near", ("entity", "other"), (), ()),
    "o": Kind("owner", ("mmsi",), ("company",), (), has_time=False),
    "f": Kind("rival", (), ("one", "other"), (), has_time=False),
    "c": Kind("listed", ("mmsi",), ("flag",), (), has_time=False),
}
FACTS = ("o", "f", "c")
FEW_MEMBERS = 4
ALLEN = ("before", "meets", "overlaps", "during", "starts", "finishes", "same_time")


@dataclass
class World:
    """A file, what was sent for it, in the order of arrival of each stream, and whether streams come in order."""

    text: str
    sent: dict[str, list[dict[str, Any]]] = field(repr=False)
    lateness_s: dict[str, int | None]

    def compile(self, folder: Path) -> Patterns:
        (folder / "owners.csv").write_text("mmsi,company\n" + "".join(
            f"{row['mmsi']},{row['company'] or ''}\n" for row in OWNERS))  # fmt: skip
        (folder / "rivals.csv").write_text("a,b\n" + "".join(
            f"{row['one'] or ''},{row['other']}\n" for row in RIVALS))  # fmt: skip
        (folder / "file.sre").write_text(self.text)
        return wayeb_py.compile(folder / "file.sre")

    def expect(self, patterns: Patterns) -> dict[str, list[Match]]:
        """The matches of every rule."""
        number = {name: i for i, name in enumerate(SCHEMAS)}
        sent = [Sent(event, number[name]) for name, events in self.sent.items() for event in events]
        inputs = FileInputs(patterns.meaning, sent, COLUMNS, {"owner": OWNERS, "rival": RIVALS})
        types: dict[Any, Any] = {}
        for over in ("events", "newest", "detections", "episodes"):
            for name in (*SCHEMAS, *PATTERNS):
                types[over, name] = {"x": Column("float")}
        ticks = max({"vessels": 1, "radar": 1000, "register": 1}[name] for name in patterns.by_stream or ["vessels"])
        for rule in patterns.meaning.rules:  # columns that other rules emit
            over = "kept" if rule.kept else "matches"
            types[over, rule.name] = {one.name: Column("float") for one in rule.emit if one.column == "x"}
        reaches_s = inputs.greatest_s(list(patterns.by_stream))
        oracle = Recogniser(inputs.rows(patterns.meaning.rules), ticks, types, ends_s=reaches_s or Fraction(-(10**9)))
        return oracle.recognise(patterns.meaning.rules)

    @property
    def orders(self) -> dict[str, Literal["arrival", "sorted"]]:
        return {name: "sorted" if late is None else "arrival" for name, late in self.lateness_s.items()}


def make_world(dice: Random, n_events: int = 24) -> World:
    """A file of which the checker says that it is right."""
    lateness_s = {name: dice.choice((None, None, 0, 3, 10)) for name in SCHEMAS}
    late = {name: "" if one is None else f" lateness {one} s" for name, one in lateness_s.items()}
    dedupe = " dedupe" if dice.random() < 0.2 else ""
    head = [
        "stream vessels { key mmsi time ts in s position lon, lat attr mmsi number attr x number forget after 20 s",
        f"{late['vessels']}{dedupe} }}",
        f"stream radar {{ key track time t in ms position px, py attr track text attr x number{late['radar']} }}",
        f"stream register {{ key id time at in s attr mmsi number attr flag text attr op text{late['register']} }}",
        'facts owner(mmsi, company) from "owners.csv"',
        'facts rival(one, other) from "rivals.csv" columns ("a", "b")',
        "facts listed(mmsi, flag) from changes register",
        *PATTERNS.values(),
    ]
    rules: list[str] = []
    kinds = dict(KINDS)
    for name in ("First", "Second")[: dice.choice((1, 1, 1, 2))]:
        for _ in range(50):
            text, kind = _rule(dice, name, kinds)
            try:
                dsl.read("\n".join([*head, *rules, text]))
            except PatternError:
                continue
            rules.append(text)
            kinds[f"p{name}"] = kind
            break
    if any(text.partition(" where ")[0].count(":") > FEW_MEMBERS + 1 for text in rules):  # nested loops are slow
        n_events //= 3
    sent = {name: list(_events(dice, name, n_events, lateness_s[name])) for name in ("vessels", "radar")}
    sent["register"] = list(_changes(dice, lateness_s["register"]))
    return World("\n".join([*head, *rules]) + "\n", sent, lateness_s)


def _changes(dice: Random, lateness_s: int | None) -> Iterator[dict[str, Any]]:
    now, sent = 0, []
    for n in range(dice.randint(0, 12)):
        now += dice.choice((0, 0, 1, 3, 9))
        sent.append((now, {
            "id": n % 3, "at": now, "mmsi": dice.choice((3, 20, 20, None)), "flag": dice.choice(("A", "B", None)),
            "op": dice.choice(("+", "+", "-", "-", "?", None)),
        }))  # fmt: skip
    if lateness_s is not None:
        sent.sort(key=lambda one: one[0] + dice.choice((0, 0, 0, 2, 5)))
    yield from (event for _, event in sent)


def _rule(dice: Random, name: str, kinds: Mapping[str, Kind]) -> tuple[str, Kind]:
    """A rule as text, and what its matches have."""
    kept = dice.random() < 0.2
    earlier = [one for one in kinds if one.startswith("p")]
    pool = [*(FACTS if kept else kinds), *earlier, *earlier]
    n_own = dice.choice((1, 2, 2, 2, 3, 3, 4, 5) if not kept else (1, 2, 2, 3, 5))
    letters = iter("abcdefghijkl")
    own = {next(letters): kinds[dice.choice(pool)] for _ in range(n_own)}
    conditions = _linked(dice, own, {}, kept)
    unless = []
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        more = {next(letters): kinds[dice.choice(pool)] for _ in range(dice.choice((1, 1, 2)))}
        where = _linked(dice, more, own, kept)
        unless.append(f" unless {_members(more)} where {' and '.join(where)}")
    parts = [f"rule {name} := {_members(own)}"]
    parts += [f" where {' and '.join(conditions)}"] if conditions else []
    parts += unless
    if not kept and dice.random() < 0.3:
        parts.append(f" once for {', '.join(dice.sample(sorted(own), dice.choice((1, min(2, n_own)))))}")
    if not kept:
        parts.append(f" within {dice.choice((3, 8, 20))} s")
    first = name[0].lower()  # columns of two rules have types of their own
    emitted = [f"{one}.{column} as {first}{one}_{column}" for one, kind in own.items() for column in _columns(kind)]
    parts.append(f" emit {', '.join(emitted)}")
    whole = tuple(f"{first}{one}_{column}" for one, kind in own.items() for column in kind.whole)
    texts = tuple(f"{first}{one}_{column}" for one, kind in own.items() for column in kind.texts)
    real = tuple(f"{first}{one}_{column}" for one, kind in own.items() for column in kind.real)
    return "".join(parts), Kind(name, whole, texts, real, has_time=not kept)


def _members(members: Mapping[str, Kind]) -> str:
    return ", ".join(f"{name}: {kind.of}" for name, kind in members.items())


def _columns(kind: Kind) -> list[str]:
    return [*kind.whole, *kind.texts, *kind.real, *(["ts"] if kind.has_time else [])]


def _linked(dice: Random, members: Mapping[str, Kind], others: Mapping[str, Kind], kept: bool) -> list[str]:
    """Conditions that tie each member to one before it, and some more."""
    found: list[str] = []
    before = dict(others)
    for name, kind in members.items():
        if before:
            for _ in range(dice.choice((1, 1, 2))):
                other = dice.choice(sorted(before))
                found.append(_condition(dice, other, before[other], name, kind))
        elif dice.random() < 0.3:
            found.append(_selection(dice, name, kind))
        before[name] = kind
    return [one for one in found if one]


def _selection(dice: Random, name: str, kind: Kind) -> str:
    if kind.real:
        return dice.choice((f"{name}.{kind.real[0]} > 1", f"not {name}.{kind.real[0]} = 2"))
    if kind.texts:
        return f'{name}.{kind.texts[0]} in {{"A", "t1", "t2"}}'
    return f"{name}.{kind.whole[0]} != 20" if kind.whole else ""


def _condition(dice: Random, a: str, one: Kind, b: str, other: Kind) -> str:
    ways: list[str] = []
    for column in ("whole", "texts", "real"):
        mine, theirs = getattr(one, column), getattr(other, column)
        if mine and theirs:
            x, y = f"{a}.{dice.choice(mine)}", f"{b}.{dice.choice(theirs)}"
            ways += [f"{x} = {y}"] * (3 if column != "real" else 1)
            ways += [f"{x} != {y}", f"({x} < {y} or {x} = {y})", f"not {x} >= {y}"]
            if len(theirs) > 1:
                ways += [f"{x} in {{{b}.{theirs[0]}, {b}.{theirs[1]}}}"] * 2
            if column == "real":
                ways += [f"{x} + {y} > 2", f"abs({x} - {y}) < 2"]
    if one.has_time and other.has_time:
        least = dice.randint(-6, 4)
        ways += [
            f"{b}.ts - {a}.ts in {least}..{least + dice.randint(1, 9)} s",
            f"abs({a}.ts - {b}.ts) <= {dice.randint(0, 5)} s",
            f"{a}.ts < {b}.ts + {dice.randint(0, 4)} s",
            f"{dice.choice(ALLEN)}({a}, {b})",
            f"({a}.ts = {b}.ts or {b}.ts - {a}.ts > 2.5 s)",
        ]  # fmt: skip
    if one.has_place and other.has_place:
        ways += [f"distance({a}, {b}) {dice.choice(('<', '<='))} {dice.choice((150, 500, 3000))} m"] * 2
        ways += [f"distance({a}, {b}) > 200 m"]
    return dice.choice(ways) if ways else ""


# What the engine gives.


def run(
    world: World, patterns: Patterns, dice: Random, *, saves: bool = False, plans: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The rows of the rules; streams in some interleaving and some cuts, from a saved state now and then."""

    def fresh(saved: bytes | None = None) -> Any:
        return wayeb_py.Recogniser(patterns, order=world.orders, saved=saved, plans=plans)

    recogniser = fresh()
    names = list(patterns.by_stream)
    for name in names:
        recogniser.bind(SCHEMAS[name], name)
    left = {name: list(world.sent[name]) for name in names}
    tables = []
    while any(left.values()):
        name = dice.choice([name for name in names if left[name]])
        n = dice.choice((1, 3, 7, 100))
        batch = pa.RecordBatch.from_pylist(left[name][:n], schema=SCHEMAS[name])
        left[name] = left[name][n:]
        tables.append(recogniser.feed(batch, name).to_arrow())
        if saves and dice.random() < 0.3:
            recogniser = fresh(recogniser.save())
    tables.append(recogniser.finish().to_arrow())
    rows = [row for table in tables for row in table.to_pylist()]
    return [row for row in rows if row["pattern"] in patterns.rule_names]


def in_seconds(time: Any, ticks_per_s: int) -> Fraction | None:
    """A time of a row, whatever its type."""
    if time is None:
        return None
    return Fraction(time, ticks_per_s) if isinstance(time, int) else Fraction(round(time.timestamp() * 1000), 1000)


Told = tuple[Any, ...]


def told_by_engine(rows: list[dict[str, Any]], patterns: Patterns) -> dict[str, list[Told]]:
    """By rule: op, times and what was emitted."""
    (ticks,) = {1000 if name == "radar" else 1 for name in patterns.by_stream} if len(patterns.by_stream) == 1 else {1}
    found: dict[str, list[Told]] = {rule.name: [] for rule in patterns.meaning.rules}
    for row in rows:
        rule = next(rule for rule in patterns.meaning.rules if rule.name == row["pattern"])
        times = (in_seconds(row[name], ticks) for name in ("start_ts", "ts", "decided_ts"))
        found[rule.name].append((row.get("op"), *times, *(_cell(row[one.name], ticks) for one in rule.emit)))
    return found


def told_by_oracle(matches: Mapping[str, list[Match]]) -> dict[str, list[Told]]:
    """The same of what should be."""
    return {
        name: [(one.op, one.start_s, one.ts_s, one.decided_s, *one.emitted.values()) for one in found]
        for name, found in matches.items()
    }


def _cell(value: Any, ticks: int) -> Any:
    return in_seconds(value, ticks) if hasattr(value, "timestamp") else value


def canonical(told: Iterable[Told]) -> list[Told]:
    """In an order of its own; times that are whole are whole numbers."""
    whole = (
        tuple(int(cell) if isinstance(cell, Fraction) and cell.denominator == 1 else cell for cell in one)
        for one in told
    )
    return sorted(whole, key=repr)


def forced_plans(patterns: Patterns, dice: Random) -> dict[str, str]:
    """For each rule some order of its members."""
    plans = {}
    for rule in patterns.meaning.rules:
        names = [member.name for member in rule.members]
        dice.shuffle(names)
        plans[rule.name] = " ".join(names)
    return plans
