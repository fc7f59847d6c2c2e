"""How far an undetected pattern got: the run that came closest, the event that stopped it, and by how much.

The comparison that failed comes from the automaton and not from the letters: among all events that would have let the
run continue, it takes those that differ in the fewest subjects from the actual one. So it is found under every
operator; for a complement, whose letters no run waits for, the explanation says what it forbids and what came.

Runs that end at the event come first; if none has got anywhere, the last one that did and was stopped before. A run
whose window is over waits for nothing, and its window is what stopped it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.compiler.axes import Axis, atoms_of, subject_of
from wayeb_py.compiler.describe import cells_text, letter_text, quantity_text, subject_text
from wayeb_py.dsl import meaning as m
from wayeb_py.why.event_values import missed_by, values_at
from wayeb_py.why.explanation import Miss, Stop
from wayeb_py.why.needed_text import NeededText
from wayeb_py.why.pattern_events import PatternEvents
from wayeb_py.why.runs import NEVER, Fate, Room, Run


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The closest run and how it ended; no run where nothing could ever match."""

    text: str  # what comes after "not detected: "
    run: Run | None = None
    steps: int = 0
    stop: Stop | None = None
    waits_for: str | None = None


class ShortfallFinder:
    """Finds out for one pattern how far its runs got."""

    def __init__(self, over: PatternEvents) -> None:
        self._over = over
        self._needed = NeededText(over)

    def find(self, row: int, fate: Fate) -> Shortfall:
        """How far the runs got that reached an event, where none of them is a match."""
        over, automaton = self._over, self._over.automaton
        run = self._closest(fate)
        if run is None:
            return Shortfall(self._never_text())
        words, length = over.words, automaton.length
        steps = max(0, length - automaton.steps_left(run.state))
        how_far = f"{steps} of at least {length} {'step' if length == 1 else 'steps'}"
        if run.event == row:
            waits_for = self._needed.of(automaton.getting_closer(run.state))
            text = f"{how_far} by {words.time_text(row)}; it waits for {waits_for}{self._until_text(run)}"
            return Shortfall(text, run, steps, waits_for=waits_for)
        stop = self._stop(run)
        if run.start <= run.event and automaton.accepting[run.state]:
            how_far = f"it matched up to {words.time_text(run.event)}"
        elif stop.is_late:
            how_far += f" by {words.time_text(run.event)}"
        met = "" if stop.is_late else f"the event of {stop.ts} did not fit: "
        return Shortfall(f"{how_far}; {met}{stop.text}", run, steps, stop)

    def _closest(self, fate: Fate) -> Run | None:
        left = self._over.automaton.steps_left
        closest = [
            *((left(run.state), 1, -run.start, run) for run in fate.stopped if self._goes_on(run)),
            *((left(run.state), 0, -run.start, run) for run in fate.alive),
        ]
        if not closest:
            return None
        run = min(closest, key=lambda ranked: ranked[:3])[3]
        if run.start > run.event and fate.stopped_before:
            before = [stopped for stopped in fate.stopped_before if self._goes_on(stopped)]
            run = min(before, key=lambda stopped: (left(stopped.state), -stopped.start), default=run)
        return run

    def _goes_on(self, run: Run) -> bool:
        """Whether any event at all would have let the run continue; a complete run may be at its end."""
        event = run.event + 1
        room = self._over.room(0, event + 1)
        return bool(self._over.automaton.going_on(run.state, room.left(run.start, event)).any())

    def _never_text(self) -> str:
        window, length = self._over.pattern.window, self._over.automaton.length
        if window is not None and window.events is not None and window.events < length < NEVER:
            return f"a match has at least {length} events, and the window {window.events}"
        return "no sequence of events matches this pattern"

    def _until_text(self, run: Run) -> str:
        """How long a run can wait at most."""
        window = self._over.pattern.window
        if window is None:
            return ""
        if window.seconds is not None:
            return f", until {self._over.window_end(run.start)}"
        left = Room(n_events=window.events).left(run.start, run.event)
        return f", within the next {'event' if left == 1 else f'{left} events'}"

    def _stop(self, run: Run) -> Stop:
        over, automaton, compiled = self._over, self._over.automaton, self._over.compiled
        row = run.event + 1
        room = over.room(0, row + 1)
        seq, ts, sender = int(over.words.chunk.seq[row]), over.words.time_text(row), over.words.sender(row)
        window = over.pattern.window
        if room.is_late(run.start, row):
            assert window is not None
            assert window.seconds is not None
            ended = f"the window of {quantity_text(window.seconds, ' s')} ended at {over.window_end(run.start)}"
            needed = self._needed.of(automaton.getting_closer(run.state))
            return Stop(seq, ts, needed, (), False, window=ended, is_late=True, sender=sender)
        goes_on = automaton.going_on(run.state, room.left(run.start, row))
        allowed = goes_on[compiled.symbol_of_cell]
        axes, cells_needed, all_needed = nearest(allowed, tuple(over.cells[:, row].tolist()), compiled.axes)
        misses = tuple(
            self._miss(compiled.axes[axis], cells, row) for axis, cells in zip(axes, cells_needed, strict=True)
        )
        missed = {compiled.axes[axis].subject for axis in axes}
        forbidden = dict.fromkeys(
            letter_text(letter, over.names)
            for letter in _forbidden_letters(over.pattern.regex)
            if over.holds[letter.predicate][row] and missed & {subject_of(atom) for atom in atoms_of(letter.predicate)}
        )
        tight = None
        if automaton.go(run.state, int(over.symbols[row])):
            assert window is not None  # nothing else stops a run that its letters let continue
            tight, forbidden = f"the window of {window.events} events left no room to pass over it", {}
        return Stop(seq, ts, self._needed.of(goes_on), misses, all_needed, tuple(forbidden), tight, sender=sender)

    def _miss(self, axis: Axis, cells: list[int], row: int) -> Miss:
        words, names = self._over.words, self._over.names
        return Miss(
            subject_text(axis.subject, names),
            values_at(words, axis.subject, row, names),
            cells_text(axis, cells, names),
            missed_by(words, axis, cells, row),
        )


def nearest(
    allowed: npt.NDArray[np.bool_], cells: tuple[int, ...], axes: tuple[Axis, ...]
) -> tuple[list[int], list[list[int]], bool]:
    """The axes on which the event should have been elsewhere, as few as possible, and where on each.

    Either one alone suffices (and there may be several such), or all of them are needed.
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
    """Without the cell for missing, unless nothing else would do: no run waits for a missing value."""
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
