"""Why a pattern was detected at an event, or why it was not.

For a detection: the events of its shortest match, each with the letter that it was read as and the values that
satisfied it. For a silence: the run that came closest, the event that stopped it, and the comparison by which it
missed. That comparison comes from the automaton and not from the letters: of all events that would have let the run
go on, those are taken that differ in the fewest subjects from the one that came. So it is found under every operator,
and a complement, whose letters no run waits for, is told by what was forbidden and seen.

Runs that end at the event come first; if none has got anywhere, the last one that did and was stopped before. A run
whose window is over waits for nothing any more, and is told as stopped by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from math import floor, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.columns import Column, to_float
from wayeb_py.compiler.alphabet import axes_of, truth_table
from wayeb_py.compiler.axes import Axis, Pair, Subject, atoms_of, coarsen, subject_of
from wayeb_py.compiler.describe import (
    amount_text,
    cells_text,
    letter_text,
    quantity_text,
    subject_text,
    symbol_texts,
    unit_of,
)
from wayeb_py.compiler.pattern import compile_pattern
from wayeb_py.compiler.regex import letters_of
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.errors import DataError
from wayeb_py.why.entity_words import Words
from wayeb_py.why.explanation import Miss, SeenEvent, Stop, Why
from wayeb_py.why.readings import Read, Readings
from wayeb_py.why.runs import NEVER, Automaton, Fate, Room, Run, follow

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

MOST_READ = 5_000  # events of one match that are read letter by letter
MOST_UNREAD = 50  # of a longer one, the last events


class Explainer:
    """Explains one pattern, or one of its places, over the words of some entities."""

    def __init__(
        self, patterns: CompiledPatterns, words: Words, name: str, place: str | None = None, most_read: int = MOST_READ
    ) -> None:
        self._most_read, self._most_cells = most_read, patterns.limits.cells
        number = patterns.names.index(name)
        pattern, compiled = patterns.meaning.patterns[number], patterns.compiled[number]
        if pattern.each is not None:
            pattern = _written_for(patterns, pattern, place)
            compiled = compile_pattern(pattern, patterns.longest, patterns.limits)
        self.pattern, self.compiled, self.place = pattern, compiled, place
        self.words = words
        self.automaton = Automaton(compiled)
        chunk, values = words.chunk, words.values
        n = len(chunk.ts)
        self._cells = np.zeros((len(compiled.axes), n), dtype=np.uint16)  # [axis, row]
        for number, axis in enumerate(compiled.axes):
            Encoder(axis).add(values.column(axis.subject, chunk), 1, self._cells[number])
        self._symbols = compiled.symbol_of_cell[tuple(self._cells)] if compiled.axes else np.zeros(n, dtype=np.int64)
        self._holds = {
            letter.predicate: values.holds(letter.predicate, chunk) for letter in letters_of(pattern.regex)
        } | {m.Always(): np.ones(n, dtype=bool)}

    def explain(self, entity: str, row: int, since: int | None = None) -> Why:
        """Why the pattern was detected at a row or not; runs are followed from the word's beginning, or `since`."""
        begin = self.words.word_begin(row) if since is None else max(since, self.words.word_begin(row))
        symbols, room = self._symbols[begin : row + 1].tolist(), self._room(begin, row + 1)
        fate = _moved(follow(self.automaton, symbols, 0, row - begin, room), begin)
        if fate.accepting is None:
            return self._silence(entity, row, fate)
        excess = self._window_excess(fate.accepting.start, row)
        return self._match(entity, row, fate.accepting.start, excess)

    def _room(self, begin: int, end: int) -> Room:
        """What the window leaves to runs over some rows."""
        window, chunk = self.pattern.window, self.words.chunk
        if window is None:
            return Room()
        span = None if window.seconds is None else window.seconds * chunk.ticks_per_s
        return Room(chunk.ts[begin:end], span, window.events)

    # ---- a match

    def _match(self, entity: str, row: int, start: int, excess: str | None) -> Why:
        words = self.words
        n = row + 1 - start
        noun = "event" if n == 1 else "events"
        if excess is None:
            summary = f"detected: {n} {noun} from {words.time_text(start)} to {words.time_text(row)}"
        else:
            summary = f"not detected: the shortest match, {n} {noun} from {words.time_text(start)}, {excess}"
        if n > self._most_read:
            summary += "; it is too long to be read letter by letter, and only its last events are shown"
        return Why(
            self.pattern.name, self.place, entity, int(words.chunk.seq[row]), words.time_text(row), excess is None,
            summary, int(words.chunk.seq[start]), words.time_text(start), self.automaton.length,
            self.automaton.length, self._seen(start, row + 1, is_whole=True), window_excess=excess,
        )  # fmt: skip

    def _window_excess(self, start: int, row: int) -> str | None:
        window = self.pattern.window
        if window is None:
            return None
        chunk = self.words.chunk
        if window.seconds is not None:
            span = Fraction(int(chunk.ts[row]) - int(chunk.ts[start]), chunk.ticks_per_s)
            if span > window.seconds:
                over = amount_text(float(span - window.seconds), " s")
                lasting = amount_text(float(span), " s")
                return f"lasts {lasting}, {over} longer than the window of {quantity_text(window.seconds, ' s')}"
        if window.events is not None and row + 1 - start > window.events:
            over_events = row + 1 - start - window.events
            return f"has {over_events} more than the {window.events} events of the window"
        return None

    def _seen(self, begin: int, end: int, is_whole: bool) -> tuple[SeenEvent, ...]:
        """The events of a match, or of the beginning of one, with what each was read as."""
        is_read = end - begin <= self._most_read
        cut = begin if is_read else max(begin, end - min(MOST_UNREAD, self._most_read))
        reads = self._read(begin, end, is_whole) if is_read else []
        by_event: dict[int, list[Read]] = {}
        for read in reads:
            by_event.setdefault(begin + read.event, []).append(read)
        return tuple(self._seen_event(row, by_event.get(row, [])) for row in range(cut, end))

    def _read(self, begin: int, end: int, is_whole: bool) -> list[Read]:
        holds = {predicate: held[begin:end].tolist() for predicate, held in self._holds.items()}
        readings = Readings(holds, end - begin)
        if is_whole:
            return readings.read(self.pattern.regex, 0, end - begin)
        return readings.read_beginning(self.pattern.regex, 0, end - begin) or []

    def _seen_event(self, row: int, reads: list[Read]) -> SeenEvent:
        letters = [read.as_ for read in reads if isinstance(read.as_, m.Letter)]
        passed = [read.as_ for read in reads if isinstance(read.as_, m.Complement)]
        subjects = dict.fromkeys(s for letter in letters for s in _subjects(letter.predicate))
        if not letters:
            subjects = dict.fromkeys(axis.subject for axis in self.compiled.axes)
        return SeenEvent(
            int(self.words.chunk.seq[row]),
            self.words.time_text(row),
            tuple(dict.fromkeys(letter_text(letter) for letter in letters)),
            {subject_text(s): self._value(s, row) for subject in subjects for s in _measured(subject)},
            tuple(dict.fromkeys(self._complement_text(complement) for complement in passed)),
        )

    def _complement_text(self, complement: m.Complement) -> str:
        letters = dict.fromkeys(
            letter_text(letter) for letter in letters_of(complement.body) if not isinstance(letter.predicate, m.Always)
        )
        return f"without {', '.join(letters)}"

    # ---- a silence

    def _silence(self, entity: str, row: int, fate: Fate) -> Why:
        left = self.automaton.steps_left
        closest = [
            *((left(run.state), 1, -run.start, run) for run in fate.stopped if self._goes_on(run)),
            *((left(run.state), 0, -run.start, run) for run in fate.alive),
        ]
        words = self.words
        if not closest:
            return Why(
                self.pattern.name, self.place, entity, int(words.chunk.seq[row]), words.time_text(row), False,
                self._never_text(),
            )  # fmt: skip
        run = min(closest, key=lambda ranked: ranked[:3])[3]
        if run.start > run.event and fate.stopped_before:
            before = [stopped for stopped in fate.stopped_before if self._goes_on(stopped)]
            run = min(before, key=lambda stopped: (left(stopped.state), -stopped.start), default=run)
        length = self.automaton.length
        steps = max(0, length - left(run.state))
        so_far = self._seen(run.start, run.event + 1, is_whole=False)
        how_far = f"{steps} of at least {length} {'step' if length == 1 else 'steps'}"
        stop, waits_for = None, None
        if run.event == row:
            waits_for = self._needed_text(self.automaton.getting_closer(run.state))
            until = self._until_text(run)
            summary = f"not detected: {how_far} by {words.time_text(row)}; it waits for {waits_for}{until}"
        else:
            stop = self._stop(run)
            if run.start <= run.event and self.automaton.accepting[run.state]:
                how_far = f"it matched up to {words.time_text(run.event)}"
            elif stop.is_late:
                how_far += f" by {words.time_text(run.event)}"
            met = "" if stop.is_late else f"the event of {stop.ts} did not fit: "
            summary = f"not detected: {how_far}; {met}{stop.text}"
        started = run.start <= run.event
        return Why(
            self.pattern.name, self.place, entity, int(words.chunk.seq[row]), words.time_text(row), False, summary,
            int(words.chunk.seq[run.start]) if started else None,
            words.time_text(run.start) if started else None,
            steps, length, so_far, stop, waits_for,
        )  # fmt: skip

    def _never_text(self) -> str:
        window, length = self.pattern.window, self.automaton.length
        if window is not None and window.events is not None and window.events < length < NEVER:
            return f"not detected: a match has at least {length} events, and the window {window.events}"
        return "not detected: no sequence of events matches this pattern"

    def _until_text(self, run: Run) -> str:
        """How long a run can wait at most."""
        window = self.pattern.window
        if window is None:
            return ""
        if window.seconds is not None:
            return f", until {self._window_end(run.start)}"
        left = Room(n_events=window.events).left(run.start, run.event)
        return f", within the next {'event' if left == 1 else f'{left} events'}"

    def _window_end(self, start: int) -> str:
        window, chunk = self.pattern.window, self.words.chunk
        assert window is not None
        assert window.seconds is not None
        return self.words.instant_text(int(chunk.ts[start]) + floor(window.seconds * chunk.ticks_per_s))

    def _goes_on(self, run: Run) -> bool:
        """Whether any event at all would have let the run go on; one that is complete may be at its end."""
        event = run.event + 1
        room = self._room(0, event + 1)
        return bool(self.automaton.going_on(run.state, room.left(run.start, event)).any())

    def _stop(self, run: Run) -> Stop:
        row = run.event + 1
        room = self._room(0, row + 1)
        seq, ts = int(self.words.chunk.seq[row]), self.words.time_text(row)
        window = self.pattern.window
        if room.is_late(run.start, row):
            assert window is not None
            assert window.seconds is not None
            ended = f"the window of {quantity_text(window.seconds, ' s')} ended at {self._window_end(run.start)}"
            needed = self._needed_text(self.automaton.getting_closer(run.state))
            return Stop(seq, ts, needed, (), False, window=ended, is_late=True)
        goes_on = self.automaton.going_on(run.state, room.left(run.start, row))
        allowed = goes_on[self.compiled.symbol_of_cell]
        axes, cells_needed, all_needed = _nearest(allowed, tuple(self._cells[:, row].tolist()), self.compiled.axes)
        misses = tuple(
            self._miss(self.compiled.axes[axis], cells, row) for axis, cells in zip(axes, cells_needed, strict=True)
        )
        missed = {self.compiled.axes[axis].subject for axis in axes}
        forbidden = dict.fromkeys(
            letter_text(letter)
            for letter in _forbidden_letters(self.pattern.regex)
            if self._holds[letter.predicate][row] and missed & {subject_of(atom) for atom in atoms_of(letter.predicate)}
        )
        tight = None
        if self.automaton.go(run.state, int(self._symbols[row])):
            assert window is not None  # nothing else stops a run that its letters let go on
            tight, forbidden = f"the window of {window.events} events left no room to pass over it", {}
        return Stop(seq, ts, self._needed_text(goes_on), misses, all_needed, tuple(forbidden), tight)

    def _needed_text(self, symbols: npt.NDArray[np.bool_]) -> str:
        """What events of some symbols are: a letter by its own name, where it is one."""
        if not self.compiled.axes:
            return "any"
        chosen = symbols[self.compiled.symbol_of_cell]
        plain = symbol_texts(self.compiled.axes, chosen.astype(np.int64), 2)[1]
        named = " or ".join(self._letters_of(self._finely(chosen)))
        return plain if not named or plain.startswith(named) else f"{named} ({plain})"

    def _letters_of(self, cells: npt.NDArray[np.bool_]) -> list[str]:
        """The letters, as the file writes them, that together are these combinations of cells; none, if none are."""
        parts = [(table, text) for table, text in self._tables if not (table & ~cells).any()]
        largest = [
            (table, text)
            for i, (table, text) in enumerate(parts)
            if not any(
                not (table & ~other).any() and ((other & ~table).any() or j < i)
                for j, (other, _) in enumerate(parts)
                if j != i
            )
        ]
        covered = np.zeros(cells.shape, dtype=bool)
        for table, _ in largest:
            covered |= table
        return [text for _, text in largest] if (covered == cells).all() else []

    @cached_property
    def _fine_axes(self) -> tuple[Axis, ...]:
        """The axes of the letters, before cells that make no difference were joined; none where they are too many."""
        axes = axes_of(letter.predicate for letter in letters_of(self.pattern.regex))
        return axes if prod(axis.n_cells for axis in axes) <= self._most_cells else ()

    @cached_property
    def _tables(self) -> list[tuple[npt.NDArray[np.bool_], str]]:
        """For each letter that the file writes [cells of all fine axes] whether it holds, and its text."""
        axes = self._fine_axes
        shape = tuple(axis.n_cells for axis in axes)
        letters = {letter.predicate: letter.text for letter in letters_of(self.pattern.regex) if letter.text}
        return [(np.broadcast_to(truth_table(p, axes), shape), text) for p, text in letters.items()] if axes else []

    def _finely(self, cells: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Combinations of the pattern's cells as combinations of those of the fine axes."""
        coarse = {axis.subject: axis for axis in self.compiled.axes}
        along = [coarsen(axis, coarse[axis.subject]) for axis in self._fine_axes if axis.subject in coarse]
        if len(along) < len(coarse):
            return cells
        kept = [axis.n_cells if axis.subject in coarse else 1 for axis in self._fine_axes]
        shape = tuple(axis.n_cells for axis in self._fine_axes)
        return np.broadcast_to(cells[np.ix_(*along)].reshape(kept), shape)

    def _miss(self, axis: Axis, cells: list[int], row: int) -> Miss:
        subject = axis.subject
        values = ", ".join(
            self._value(part, row) if part == subject else f"{subject_text(part)} {self._value(part, row)}"
            for part in _measured(subject)
        )
        return Miss(subject_text(subject), values, cells_text(axis, cells), self._missed_by(axis, cells, row))

    def _missed_by(self, axis: Axis, cells: list[int], row: int) -> str | None:
        """How far the value is from where it would have had to be, where there is a distance at all."""
        subject = axis.subject
        if isinstance(subject, m.Near):
            away = self._number(m.Distance(subject.places), row) - float(subject.distance_m)
            return None if np.isnan(away) else amount_text(abs(away), " m")
        if isinstance(subject, Pair):
            difference = self._number(subject.left, row) - self._number(subject.right, row)
            return None if np.isnan(difference) else amount_text(abs(difference), unit_of(subject.left))
        if axis.sort != "numbers":
            return None
        value = self._number(subject, row)
        if np.isnan(value):
            return None
        gaps = []
        for cell in cells:
            if cell < axis.n_cells - 1:
                low = float(axis.cuts[cell - 1].value) if cell > 0 else -np.inf
                high = float(axis.cuts[cell].value) if cell < len(axis.cuts) else np.inf
                gaps.append(max(low - value, value - high, 0.0))
        return amount_text(min(gaps), unit_of(subject)) if gaps else None

    # ---- values

    def _column(self, subject: Subject) -> Column:
        return self.words.values.column(subject, self.words.chunk)

    def _number(self, subject: Subject, row: int) -> float:
        column = self._column(subject)
        return float(to_float(column.slice(row, row + 1))[0]) if column.kind in ("number", "time") else float("nan")

    def _value(self, subject: Subject, row: int) -> str:
        column = self._column(subject)
        match column.kind:
            case "text":
                words = column.words or []
                code = int(column.values[row])
                word = words[code] if code < len(words) else None
                return "missing" if word is None else f'"{word}"'
            case "bool":
                return ("false", "true", "missing")[int(column.values[row])]
            case _:
                number = self._number(subject, row)
                return "missing" if np.isnan(number) else amount_text(number, unit_of(subject))


def explain(
    patterns: CompiledPatterns, words: Words, name: str, entity: str, at_s: Fraction, place: str | None = None
) -> Why:
    """Why a pattern was detected, or not, at an entity's last event at or before a time."""
    if entity not in words.first:
        raise DataError(f"the events have no entity `{entity}`")
    row = words.row_at(entity, float(at_s * words.chunk.ticks_per_s))
    if row is None:
        first = words.time_text(words.first[entity][0])
        raise DataError(f"the entity `{entity}` has no event so early: its first is at {first}")
    return Explainer(patterns, words, name, place).explain(entity, row)


def explain_event(
    patterns: CompiledPatterns, words: Words, name: str, entity: str, ts: pa.ChunkedArray, seq: int, place: str | None
) -> Why:
    """Why a pattern was detected at the event of an entity that has a time, a column of one, and a number."""
    begin, end = words.first[entity]
    time = words.instant_of(ts)
    rows = np.flatnonzero((words.chunk.ts[begin:end] == time) & (words.chunk.seq[begin:end] == seq))
    return Explainer(patterns, words, name, place).explain(entity, begin + int(rows[0]))


def _written_for(patterns: CompiledPatterns, pattern: m.Pattern, place: str | None) -> m.Pattern:
    from wayeb_py.compiler.for_each import write_out

    assert pattern.each is not None
    index = patterns.places(pattern.each[1])
    for name, written in write_out(pattern, index.names, index.columns):
        if name == place:
            return written
    from difflib import get_close_matches

    if place is None:
        raise DataError(
            f"pattern `{pattern.name}` is one for each place of `{pattern.each[1]}`",
            hint="say which place: `--place NAME`",
        )
    near = get_close_matches(place, list(index.names), n=1)
    hint = f"did you mean `{near[0]}`?" if near else None
    raise DataError(f"no place of `{pattern.each[1]}` is called `{place}`", hint=hint)


def _moved(fate: Fate, begin: int) -> Fate:
    """The same with events counted from the first row."""

    def moved(run: Run) -> Run:
        return Run(run.start + begin, run.state, run.event + begin)

    return Fate(
        None if fate.accepting is None else moved(fate.accepting),
        tuple(map(moved, fate.alive)),
        tuple(map(moved, fate.stopped)),
        tuple(map(moved, fate.stopped_before)),
    )


def _nearest(
    allowed: npt.NDArray[np.bool_], cells: tuple[int, ...], axes: tuple[Axis, ...]
) -> tuple[list[int], list[list[int]], bool]:
    """The axes on which an event would have had to be elsewhere, as few as possible, and where on each.

    Either one alone would do (and there may be several such), or all of them are needed.
    """
    alone = []
    for axis in range(len(axes)):
        along: tuple[Any, ...] = (*cells[:axis], slice(None), *cells[axis + 1 :])
        found = np.flatnonzero(allowed[along]).tolist()
        if found:
            alone.append((axis, _present(axes[axis], found)))
    if alone:
        return [axis for axis, _ in alone], [found for _, found in alone], False
    combinations = np.argwhere(allowed)
    if not len(combinations):
        return [], [], False
    differs = combinations != np.array(cells)
    fewest = differs[np.argmin(differs.sum(axis=1))]
    same = (differs == fewest).all(axis=1)
    chosen = np.flatnonzero(fewest).tolist()
    found_by_axis = [sorted(set(combinations[same][:, axis].tolist())) for axis in chosen]
    return chosen, [_present(axes[a], found) for a, found in zip(chosen, found_by_axis, strict=True)], True


def _present(axis: Axis, cells: list[int]) -> list[int]:
    """Without the cell for missing, unless nothing else would do: no run waits for a value to be missing."""
    if axis.sort == "flags":
        return cells
    return [cell for cell in cells if cell != axis.n_cells - 1] or cells


def _forbidden_letters(regex: m.Regex, inside: bool = False) -> Iterator[m.Letter]:
    """The letters that stand inside a complement, or that `@` must not skip."""
    match regex:
        case m.Letter(predicate):
            if inside and not isinstance(predicate, m.Always):
                yield regex
        case m.Complement(body):
            yield from _forbidden_letters(body, True)
        case m.Iteration(body):
            yield from _forbidden_letters(body, inside)
        case m.SkipNext(parts):
            for part in parts:
                yield from _forbidden_letters(part, True)
        case _:
            for part in regex.parts:
                yield from _forbidden_letters(part, inside)


def _subjects(predicate: m.Predicate) -> Iterator[Subject]:
    for atom in atoms_of(predicate):
        yield subject_of(atom)


def _measured(subject: Subject) -> tuple[Subject, ...]:
    """What to show for a subject: both sides of a pair, and how far away what is near or not."""
    match subject:
        case Pair(left, right):
            return tuple(side for side in (left, right) if not isinstance(side, m.Constant))
        case m.Near(places):
            return (m.Distance(places),)
        case _:
            return (subject,)
