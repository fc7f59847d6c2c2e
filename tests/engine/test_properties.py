"""The engine equals the oracle, whatever the patterns, the events, the cuts and the settings.

The oracle evaluates the random trees themselves and the engine reads them as text, so that a precedence or a conversion
that the reader gets wrong shows as well.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import wayeb_py
from tests.cases import KEY, TIME, stream_block
from tests.engines import SIMULATED, Found, Job, assert_equal, detections_of, episodes_of, fed, in_chunks, in_one_call
from tests.oracle import Answer, Cell, Column, Detection, Settings, recognise
from tests.strategies import (
    ALL_ATOMS,
    HELD_ATOMS,
    PLAIN_ATOMS,
    WORDS,
    event_lists,
    examples,
    regexes,
    windows,
    write_pattern,
)
from wayeb_py.compiler.automata.regex import parts_of
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits
from wayeb_py.compiler.pattern import automaton_digest
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import SourceText

COLUMNS = {
    KEY: Column("text"),
    TIME: Column("integer"),
    "k": Column("text"),
    "x": Column("float", float_bits=32),
    "y": Column("integer"),
    "b": Column("bool"),
    "n": Column("integer"),
}
SCHEMA = pa.schema(
    {
        KEY: pa.string(),
        TIME: pa.int64(),
        "k": pa.string(),
        "x": pa.float32(),
        "y": pa.int8(),
        "b": pa.bool_(),
        "n": pa.int16(),
    }
)
VALUES: dict[str, tuple[Cell, ...]] = {
    KEY: ("p", "p", "p", "q", "q", "r"),
    TIME: (-1, 0, 1, 1, 2, 2, 3, 6),  # half seconds since the event before
    "k": (*WORDS, *WORDS, "d", None),
    "x": (0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, float("inf"), float("nan"), None),
    "y": (0, 1, 2, 3, 4, None),
    "b": (True, False, None),
    "n": (1, 2, 3, -4, 5, None),
}
Atoms = tuple[st.SearchStrategy[m.Predicate], ...]


@dataclass(frozen=True)
class Scene:
    """Patterns as trees, events in the order of their arrival, and how they are to be read."""

    patterns: tuple[m.Pattern, ...]
    events: list[dict[str, Cell]]
    arrival: bool
    longest: bool
    lateness_s: Fraction
    forget_after_s: Fraction | None
    dedupe: bool
    order: str | None

    def job(self) -> Job:
        # A lateness that is given holds for a whole table too; without one the table is put in order.
        lines = [f"lateness {float(self.lateness_s)} s"] if self.arrival else []
        if self.forget_after_s is not None:
            lines.append(f"forget after {float(self.forget_after_s)} s")
        if self.order is not None:
            lines.append(f"order {self.order}")
        if self.dedupe:
            lines.append("dedupe")
        text = "".join(write_pattern(pattern.name, pattern.regex, pattern.window) for pattern in self.patterns)
        table = pa.Table.from_pylist(self.events, schema=SCHEMA)
        return Job(stream_block("ms", "\n".join(lines)) + text, table, self.longest, self.arrival, self.order)

    def answer(self) -> Answer:
        """What the oracle says."""
        how = Settings(
            KEY,
            TIME,
            1_000,
            not self.arrival,
            self.longest,
            self.lateness_s,
            self.forget_after_s,
            self.dedupe,
            order=self.order,
        )
        return recognise(m.Meaning(m.Stream(), self.patterns), COLUMNS, self.events, how)


@st.composite
def scenes(
    draw: DrawFn,
    arrival: bool | None = None,
    max_events: int = 30,
    min_patterns: int = 1,
    plain: bool | None = None,
    atoms: Atoms | None = None,
) -> Scene:
    if atoms is None:
        is_plain = draw(st.booleans()) if plain is None else plain
        atoms = PLAIN_ATOMS if is_plain else ALL_ATOMS
    patterns = tuple(
        m.Pattern(f"P{n}", draw(regexes(atoms, max_depth=4)), SourceText("random", ""), window=draw(windows()))
        for n in range(draw(st.integers(min_patterns, 3)))
    )
    time_ms = draw(st.integers(-20, 20)) * 1_000
    events: list[dict[str, Any]] = []
    for event in draw(event_lists(VALUES, max_size=max_events)):
        time_ms += event[TIME] * 500
        events.append({**event, TIME: time_ms})
    if draw(st.booleans()):  # only ties may be out of order, if anything is
        events.sort(key=lambda event: cast(int, event[TIME]))
    return Scene(
        patterns,
        events,
        draw(st.booleans()) if arrival is None else arrival,
        draw(st.booleans()),
        Fraction(draw(st.sampled_from((0, 0, 1, 2, 5))), 2),
        draw(st.sampled_from((None, None, Fraction(2), Fraction(5, 2)))),
        draw(st.booleans()),
        draw(st.sampled_from((None, None, "n"))),
    )


def cuts(scene: Scene, draw: Any) -> list[int]:
    return sorted(draw(st.lists(st.integers(0, len(scene.events)), max_size=5)))


@settings(max_examples=examples(150))
@given(scenes(arrival=False))
def test_a_whole_table_gives_what_the_definitions_say(scene: Scene) -> None:
    assert_equal(in_one_call(scene.job()), scene.answer())


@settings(max_examples=examples(150))
@given(scenes(), st.data())
def test_batches_of_any_cuts_give_what_the_definitions_say(scene: Scene, data: st.DataObject) -> None:
    assert_equal(fed(scene.job(), cuts(scene, data.draw)), scene.answer())


# At most three letters to a pattern, so that eight cells suffice for letters that are evaluated as a whole.
LIMITS = st.builds(
    Limits,
    cells=st.sampled_from((8, 64, DEFAULT_LIMITS.cells)),
    dfa_states=st.sampled_from((0, DEFAULT_LIMITS.dfa_states, DEFAULT_LIMITS.dfa_states)),
    table_states=st.sampled_from((0, 4, DEFAULT_LIMITS.table_states)),
    group_states=st.sampled_from((1, 8, DEFAULT_LIMITS.group_states)),
    known_age=st.sampled_from((1, 3, DEFAULT_LIMITS.known_age)),
)


@settings(max_examples=examples(150))
@given(scenes(), st.data(), LIMITS)
def test_limits_change_how_a_pattern_runs_and_not_what_it_detects(
    scene: Scene, data: st.DataObject, limits: Limits
) -> None:
    assert_equal(fed(scene.job(), cuts(scene, data.draw), limits=limits), scene.answer())


@settings(max_examples=examples(250))
@given(scenes(min_patterns=2, plain=False, max_events=60), st.sampled_from((32, 64)))
def test_patterns_that_mention_more_than_cells_allow_do_not_disturb_each_other(scene: Scene, cells: int) -> None:
    # Letters that are evaluated as a whole, three to a pattern: two such patterns still fit into one group.
    assert_equal(fed(scene.job(), [], limits=Limits(cells=cells)), scene.answer())


@settings(max_examples=examples(100))
@given(scenes(), st.data(), LIMITS)
def test_a_restored_recogniser_continues_as_if_never_stopped(scene: Scene, data: st.DataObject, limits: Limits) -> None:
    assert_equal(fed(scene.job(), cuts(scene, data.draw), limits=limits, restored=True), scene.answer())


@settings(max_examples=examples(80))
@given(scenes(atoms=(PLAIN_ATOMS[0], HELD_ATOMS)), st.data(), LIMITS)
def test_how_long_a_predicate_has_held_is_known_across_cuts(scene: Scene, data: st.DataObject, limits: Limits) -> None:
    assert_equal(fed(scene.job(), cuts(scene, data.draw), limits=limits, restored=True), scene.answer())


@settings(max_examples=examples(80))
@given(scenes(), st.data(), st.integers(1, 4), st.booleans())
def test_chunks_of_any_size_give_what_the_definitions_say(
    scene: Scene, data: st.DataObject, chunk_rows: int, simulated: bool
) -> None:
    limits = SIMULATED if simulated else None
    assert_equal(in_chunks(scene.job(), cuts(scene, data.draw), chunk_rows, limits), scene.answer())


@settings(max_examples=examples(40))
@given(scenes(), st.data())
def test_two_workers_give_what_one_gives(scene: Scene, data: st.DataObject) -> None:
    assert_equal(fed(scene.job(), cuts(scene, data.draw), workers=2), scene.answer())


@settings(max_examples=examples(60))
@given(scenes(arrival=True))
def test_a_detection_is_known_as_soon_as_its_entity_has_reached_the_lateness(scene: Scene) -> None:
    scene = replace(scene, order=None)  # with an order column, ties wait for each other
    job, answer = scene.job(), scene.answer()
    recogniser = wayeb_py.Recogniser(job.compile(), order="arrival")
    for n_arrived in range(1, len(scene.events) + 1):
        found = recogniser.feed(job.table.slice(n_arrived - 1, 1)).to_arrow()
        expected = [
            (detection.pattern, detection.seq)
            for detection, after in zip(answer.detections, answer.known_after, strict=True)
            if after == n_arrived
        ]
        assert sorted(zip(found["pattern"].to_pylist(), found["seq"].to_pylist(), strict=True)) == sorted(expected)


@settings(max_examples=examples(60))
@given(scenes(), scenes(), st.data())
def test_a_pattern_that_is_added_later_starts_fresh_and_disturbs_no_other(
    scene: Scene, other: Scene, data: st.DataObject
) -> None:
    added = tuple(replace(pattern, name=f"Q{n}") for n, pattern in enumerate(other.patterns))
    cut = data.draw(st.integers(0, len(scene.events)))
    # Without lateness an event is recognised when it arrives, so it is plain which events the new patterns see.
    events = sorted(scene.events, key=lambda event: cast(int, event[TIME]))
    scene = replace(scene, arrival=False, events=events, dedupe=False, order=None)
    both = replace(scene, patterns=tuple(data.draw(st.permutations((*scene.patterns, *added)))))
    before, after = scene.job(), both.job()
    patterns, more = before.compile(), after.compile()
    # A pattern that means the same as an older one continues with the older one's state, whatever its name.
    known = {pattern.fingerprint for pattern in patterns.compiled}
    assume(not any(p.fingerprint in known for p in more.compiled if p.name.startswith("Q")))
    recogniser = wayeb_py.Recogniser(patterns, order="sorted")
    first = recogniser.feed(before.table.slice(0, cut))
    recogniser = wayeb_py.Recogniser(more, order="sorted", saved=recogniser.save())
    second = recogniser.feed(after.table.slice(cut))
    old = scene.answer().detections
    new = replace(scene, patterns=added, events=scene.events[cut:]).answer().detections
    expected = sorted((found.pattern, found.entity, found.ts, found.start_ts) for found in (*old, *new))
    columns = [
        [value for part in (first, second) for value in part.to_arrow().to_pydict().get(name, ())]
        for name in ("pattern", "entity", "ts", "start_ts")
    ]
    assert sorted(zip(*columns, strict=True)) == expected


NEIGHBOURS = (0, 1, -1, 2**31, 2**32, -(2**63), 2**63 - 1, 10**15)


@settings(max_examples=examples(20))
@given(
    st.integers(0, 2**32),
    st.integers(1, 3_000),
    st.sampled_from((1, 64, 2**20, 2**40)),
    st.sampled_from(NEIGHBOURS),
    st.sampled_from((pa.int64(), pa.string(), pa.dictionary(pa.int32(), pa.string()))),
)
def test_entities_are_told_apart_by_their_keys(seed: int, n_keys: int, stride: int, origin: int, type_: Any) -> None:
    dice = random.Random(seed)
    keys = [(origin + stride * dice.randrange(n_keys) + 2**63) % 2**64 - 2**63 for _ in range(2_000)]
    written: list[Any] = keys if type_ == pa.int64() else [f"vessel {key}" for key in keys]
    table = pa.table({KEY: pa.array(written, type_.value_type if pa.types.is_dictionary(type_) else type_).cast(type_)})
    table = table.append_column(TIME, pa.array(range(len(keys)), pa.int64()))
    job = Job(stream_block("s") + "pattern Second := any ; any", table, arrival=True)
    found = fed(job, sorted(dice.randrange(len(keys)) for _ in range(3)))
    before: dict[Any, list[int]] = {}
    expected = []
    for row, key in enumerate(written):
        rows = before.setdefault(key, [])
        if rows:
            expected.append(Detection("Second", key, row, len(rows), rows[-1], len(rows) - 1))
        rows.append(row)
    assert found.detections == sorted(expected, key=repr)


def rewritten(regex: m.Regex, dice: random.Random, mildly: bool) -> m.Regex:
    """The same meaning in other words; mildly: only in the order of parts and in how letters are written."""
    parts = tuple(rewritten(part, dice, mildly) for part in parts_of(regex))
    match regex:
        case m.Letter(predicate):
            other: m.Regex = m.Letter(m.Not(m.Not(predicate))) if dice.randrange(2) else regex
        case m.Union():
            other = m.Union(parts[::-1])
        case m.Intersection():
            other = m.Intersection(parts[::-1])
        case m.Complement():
            other = m.Complement(parts[0])
        case m.Iteration(_, at_least, at_most):
            (body,) = parts
            other = m.Iteration(body, at_least, at_most)
            if at_least and at_most is None and not mildly:
                other = m.Sequence((*(body,) * at_least, m.Iteration(body, 0, None)))
        case m.Sequence() | m.SkipAny() | m.SkipNext():
            other = replace(regex, parts=parts)
    if mildly or dice.randrange(3):
        return other
    return m.Complement(m.Complement(other)) if dice.randrange(2) else m.Union((other, m.Intersection((other, other))))


@settings(max_examples=examples(200))
@given(
    scenes(),
    st.data(),
    st.sampled_from((DEFAULT_LIMITS, SIMULATED, SIMULATED, Limits(dfa_states=0))),
    st.integers(0, 2**32),
)
def test_a_rewritten_pattern_continues_where_the_old_one_was(
    scene: Scene, data: st.DataObject, limits: Limits, seed: int
) -> None:
    mildly = limits.dfa_states == 0  # without a minimal automaton nothing tells what an expression means
    others = tuple(replace(p, regex=rewritten(p.regex, random.Random(seed), mildly)) for p in scene.patterns)
    before, after = scene.job(), replace(scene, patterns=others).job()
    old, new = before.compile(limits), after.compile(limits)
    assume(mildly or all(p.dfa is not None for p in (*old.compiled, *new.compiled)))
    assert [automaton_digest(p) for p in new.compiled] == [automaton_digest(p) for p in old.compiled]
    table, order = before.fed()
    cut = data.draw(st.integers(0, table.num_rows))
    first = wayeb_py.Recogniser(old, order=order, episodes=True)
    found = [first.feed(table.slice(0, cut))]
    second = wayeb_py.Recogniser(new, order=order, episodes=True, saved=first.save())
    found += [second.feed(table.slice(cut)), second.finish()]
    episodes = episodes_of([part.episodes() for part in found], new)
    both = Found(detections_of([part.to_arrow() for part in found], new), episodes)
    assert_equal(both, scene.answer())
