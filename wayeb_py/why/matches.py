"""The events of a match, or of the beginning of one, each with the letter it was read as and the values that decided
it.

The checked regex is read again (`readings`), since the automaton forgets letters. A match that is too long for that
keeps its last events, without their letters.
"""

from __future__ import annotations

from collections.abc import Iterator

from wayeb_py.compiler.automata.regex import letters_of
from wayeb_py.compiler.axes import Subject, atoms_of, subject_of
from wayeb_py.compiler.describe import Names, letter_text, subject_text
from wayeb_py.dsl import meaning as m
from wayeb_py.why.event_values import measured, value_text
from wayeb_py.why.explanation import SeenEvent
from wayeb_py.why.pattern_events import PatternEvents
from wayeb_py.why.readings import Read, Readings

MOST_READ = 5_000  # events of one match that are read letter by letter
MOST_UNREAD = 50  # last events of a longer match


class MatchReader:
    """Reads the matches of one pattern."""

    def __init__(self, over: PatternEvents, most_read: int = MOST_READ) -> None:
        self._over, self.most_read = over, most_read

    def seen(self, begin: int, end: int, is_whole: bool) -> tuple[SeenEvent, ...]:
        """The events of a match, or of the beginning of one, with what each was read as."""
        is_read = end - begin <= self.most_read
        cut = begin if is_read else max(begin, end - min(MOST_UNREAD, self.most_read))
        by_event: dict[int, list[Read]] = {}
        for read in self._read(begin, end, is_whole) if is_read else []:
            by_event.setdefault(begin + read.event, []).append(read)
        return tuple(self._seen_event(row, by_event.get(row, [])) for row in range(cut, end))

    def _read(self, begin: int, end: int, is_whole: bool) -> list[Read]:
        holds = {predicate: held[begin:end].tolist() for predicate, held in self._over.holds.items()}
        readings = Readings(holds, end - begin)
        if is_whole:
            return readings.read(self._over.pattern.regex, 0, end - begin)
        return readings.read_beginning(self._over.pattern.regex, 0, end - begin) or []

    def _seen_event(self, row: int, reads: list[Read]) -> SeenEvent:
        words, names = self._over.words, self._over.names
        letters = [read.as_ for read in reads if isinstance(read.as_, m.Letter)]
        passed = [read.as_ for read in reads if isinstance(read.as_, m.Complement)]
        subjects = dict.fromkeys(s for letter in letters for s in _subjects(letter.predicate))
        if not letters:
            subjects = dict.fromkeys(axis.subject for axis in self._over.compiled.axes)
        return SeenEvent(
            int(words.chunk.seq[row]),
            words.time_text(row),
            tuple(dict.fromkeys(letter_text(letter, names) for letter in letters)),
            {subject_text(s, names): value_text(words, s, row) for subject in subjects for s in measured(subject)},
            tuple(dict.fromkeys(_complement_text(complement, names) for complement in passed)),
            words.sender(row),
        )


def _complement_text(complement: m.Complement, names: Names) -> str:
    letters = dict.fromkeys(
        letter_text(letter, names)
        for letter in letters_of(complement.body)
        if not isinstance(letter.predicate, m.Always)
    )
    return f"without {', '.join(letters)}"


def _subjects(predicate: m.Predicate) -> Iterator[Subject]:
    for atom in atoms_of(predicate):
        yield subject_of(atom)
