"""One pattern of the checked tree becomes what the engine runs: axes, symbols and a tracking automaton.

    letters → alphabet of minterms → regex → derivatives → minimal automaton → tracking automaton

Then the pattern is brought into a normal form: cells that make no difference are joined, axes that make none are
dropped, symbols and states are numbered as a walk meets them. Patterns that mean the same have the same fingerprint,
whatever they look like; they cost once, keep their state when a file is rewritten, and are pointed out by the
checker.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from wayeb_py.alphabet import Alphabet, build_alphabet
from wayeb_py.axes import Axis
from wayeb_py.derivatives import (
    Derivatives,
    Dfa,
    IntArray,
    Nfa,
    OverBudgetError,
    deep_recursion,
    determinize,
    linearize,
)
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import Diagnostic, LimitError
from wayeb_py.limits import Limits
from wayeb_py.minimize import join_symbols, minimize, renumber
from wayeb_py.regex import Node, Regexes, letters_of
from wayeb_py.tracking import Tracker, track


@dataclass(frozen=True, slots=True)
class CompiledPattern:
    """A pattern ready to run: by its tracker, or, where that would be too large, run by run on its nfa."""

    name: str
    axes: tuple[Axis, ...]
    symbol_of_cell: IntArray  # [cell of axis 0, cell of axis 1, …]
    n_symbols: int
    window: m.Window | None
    longest: bool
    emit: tuple[str, ...]
    tracker: Tracker | None
    nfa: Nfa | None
    dfa: Dfa | None  # of the pattern itself; None where it was over budget
    fingerprint: str

    @property
    def is_empty(self) -> bool:
        """Whether no sequence at all is in the pattern."""
        return self.dfa is not None and not self.dfa.accepting.any()

    @property
    def holds_empty_sequence(self) -> bool:
        return bool(self.dfa.accepting[0]) if self.dfa is not None else bool(cast(Nfa, self.nfa).accepting[0])


def compile_pattern(pattern: m.Pattern, longest: bool, limits: Limits) -> CompiledPattern:
    """The pattern in its normal form; raises LimitError where neither way of running it fits the limits."""
    with deep_recursion():
        try:
            alphabet = build_alphabet((letter.predicate for letter in letters_of(pattern.regex)), limits)
        except LimitError as error:
            diagnostic = Diagnostic(
                "error", f"{error.message}: it has {error.given}, the limit is {error.limit}",
                pattern.source, pattern.span, hint=error.knob,
            )  # fmt: skip
            raise LimitError(error.message, error.given, error.limit, error.knob, diagnostic) from None
        regexes = Regexes(alphabet.full)
        node = regexes.from_meaning(pattern.regex, alphabet.mask_of)
    derivatives = Derivatives(regexes)
    try:
        dfa = minimize(determinize(derivatives, node, alphabet.n_minterms, limits.dfa_states, limits.dfa_seconds))
    except OverBudgetError:
        return _simulate(pattern, alphabet, derivatives, node, longest, limits)
    return _tabulate(pattern, alphabet, derivatives, node, dfa, longest, limits)


def _tabulate(
    pattern: m.Pattern,
    alphabet: Alphabet,
    derivatives: Derivatives,
    node: Node,
    dfa: Dfa,
    longest: bool,
    limits: Limits,
) -> CompiledPattern:
    """The pattern by tables, or simulated where tracking its starts would take too many states."""
    joined, class_of_minterm = join_symbols(dfa)
    shape = tuple(axis.n_cells for axis in alphabet.axes)
    axes, symbols = _normalize_axes(alphabet.axes, class_of_minterm[alphabet.minterm_of_cell].reshape(shape))
    symbol_of_cell, representatives = _number_by_appearance(symbols)
    joined = renumber(Dfa(joined.next_state[:, representatives], joined.accepting), 0)
    fingerprint = _fingerprint(
        axes, symbol_of_cell.tobytes(), joined.next_state.tobytes(), joined.accepting.tobytes(), pattern.window, longest
    )
    tracker = None
    nfa = None
    # With a window the earliest start may fall out of it while a later one is still inside: runs cannot be joined then.
    if not (longest and pattern.window is not None):
        try:
            tracked = joined
            if not longest:
                tracked = _without_leading_any(
                    derivatives, node, alphabet, class_of_minterm, representatives, joined, limits
                )
            tracker = track(tracked, longest, limits.known_age, limits.table_states)
        except OverBudgetError:
            tracker = None
    if tracker is None:
        nfa = _nfa_of_dfa(joined)
        try:
            smaller = _linearize(derivatives, node, alphabet, limits)
            if smaller.n_states < nfa.n_states:
                class_symbols = np.array(
                    [int(np.flatnonzero(class_of_minterm == r)[0]) for r in representatives.tolist()], dtype=np.int64
                )
                nfa = _over_symbols(smaller, class_symbols)
        except OverBudgetError:
            pass
    return CompiledPattern(
        pattern.name, axes, symbol_of_cell, joined.n_symbols, pattern.window, longest, pattern.emit,
        tracker, nfa, joined, fingerprint,
    )  # fmt: skip


def _without_leading_any(
    derivatives: Derivatives,
    node: Node,
    alphabet: Alphabet,
    class_of_minterm: IntArray,
    representatives: IntArray,
    dfa: Dfa,
    limits: Limits,
) -> Dfa:
    """The automaton of R for a pattern `any* ; R`: its shortest matches are those of R, from fewer runs.

    Not so where R may be empty, since then one event of the `any*` is the shortest match.
    """
    if node.shape != "sequence" or node.parts[0] is not derivatives.regexes.everything or node.parts[1].nullable:
        return dfa
    rest = minimize(determinize(derivatives, node.parts[1], alphabet.n_minterms, limits.dfa_states, limits.dfa_seconds))
    first = [int(np.flatnonzero(class_of_minterm == r)[0]) for r in representatives.tolist()]
    # Minterms that act alike in `any* ; R` might differ in R; then R gains nothing and the whole is tracked.
    for symbol, r in enumerate(representatives.tolist()):
        members = np.flatnonzero(class_of_minterm == r)
        if (rest.next_state[:, members] != rest.next_state[:, [first[symbol]]]).any():
            return dfa
    return renumber(Dfa(rest.next_state[:, first], rest.accepting), 0)


def _simulate(
    pattern: m.Pattern, alphabet: Alphabet, derivatives: Derivatives, node: Node, longest: bool, limits: Limits
) -> CompiledPattern:
    try:
        nfa = _linearize(derivatives, node, alphabet, limits)
    except OverBudgetError as error:
        raise _limit_error(pattern, error.n_states, limits) from None
    shape = tuple(axis.n_cells for axis in alphabet.axes)
    return CompiledPattern(
        pattern.name,
        alphabet.axes,
        alphabet.minterm_of_cell.reshape(shape),
        alphabet.n_minterms,
        pattern.window,
        longest,
        pattern.emit,
        None,
        nfa,
        None,
        _fingerprint(alphabet.axes, repr(pattern.regex).encode(), b"", b"", pattern.window, longest),
    )


def _linearize(derivatives: Derivatives, node: Node, alphabet: Alphabet, limits: Limits) -> Nfa:
    return linearize(derivatives, node, alphabet.n_minterms, limits.nfa_states, limits.nfa_seconds)


def _nfa_of_dfa(dfa: Dfa) -> Nfa:
    """The same automaton as one whose runs may die: transitions to hopeless states are left out."""
    alive = dfa.accepting.copy()
    while (more := alive | alive[dfa.next_state].any(axis=1)).sum() > alive.sum():
        alive = more
    lives = alive[dfa.next_state]
    first = np.zeros((dfa.n_states, dfa.n_symbols + 1), dtype=np.int64)
    counts = np.cumsum(lives.reshape(-1))
    first.reshape(-1)[:] = 0
    first[:, 1:] = counts.reshape(dfa.n_states, dfa.n_symbols)
    first[1:, 0] = first[:-1, -1]
    return Nfa(first, dfa.next_state[lives], dfa.accepting)


def _over_symbols(nfa: Nfa, minterm_of_symbol: IntArray) -> Nfa:
    """The automaton over symbols, each acting as one of its minterms."""
    rows = [
        [nfa.successors[nfa.first[state, minterm] : nfa.first[state, minterm + 1]] for minterm in minterm_of_symbol]
        for state in range(nfa.n_states)
    ]
    first = np.zeros((nfa.n_states, len(minterm_of_symbol) + 1), dtype=np.int64)
    lengths = np.array([[len(part) for part in row] for row in rows], dtype=np.int64)
    ends = np.cumsum(lengths.reshape(-1)).reshape(lengths.shape)
    first[:, 1:] = ends
    first[1:, 0] = ends[:-1, -1]
    successors = np.concatenate([part for row in rows for part in row]) if rows else np.zeros(0, dtype=np.int64)
    return Nfa(first, successors, nfa.accepting)


def _normalize_axes(axes: tuple[Axis, ...], symbols: IntArray) -> tuple[tuple[Axis, ...], IntArray]:
    """Axes without the cuts and words that make no difference, and without those that make none at all."""
    kept: list[Axis] = []
    dimension = 0
    for axis in axes:
        slices = np.moveaxis(symbols, dimension, 0)
        rows = slices.reshape(axis.n_cells, -1)
        if (rows == rows[0]).all():
            symbols = slices[0]
            continue
        normal, cells = _normalize_axis(axis, rows)
        symbols = np.moveaxis(slices[cells], 0, dimension)
        kept.append(normal)
        dimension += 1
    return tuple(kept), symbols


def _normalize_axis(axis: Axis, rows: IntArray) -> tuple[Axis, list[int]]:
    """The coarsest axis that keeps the rows apart, and for each of its cells one cell of the axis before."""
    missing = axis.n_cells - 1
    if axis.sort not in ("flags", "pairs", "presence") and (rows[:missing] == rows[0]).all():
        return Axis(axis.subject, "presence"), [0, missing]
    match axis.sort:
        case "numbers":
            needed = [i for i in range(len(axis.cuts)) if (rows[i] != rows[i + 1]).any()]
            cells = [0, *(i + 1 for i in needed), missing]
            return replace(axis, cuts=tuple(axis.cuts[i] for i in needed)), cells
        case "ordered words":
            if (rows[0:missing:2] == rows[0]).all():
                needed = [i for i in range(len(axis.words)) if (rows[2 * i + 1] != rows[0]).any()]
                words = tuple(axis.words[i] for i in needed)
                return Axis(axis.subject, "words", words=words), [*(2 * i + 1 for i in needed), 0, missing]
            needed = [
                i
                for i in range(len(axis.words))
                if (rows[2 * i] != rows[2 * i + 1]).any() or (rows[2 * i + 1] != rows[2 * i + 2]).any()
            ]
            cells = [0] + [cell for i in needed for cell in (2 * i + 1, 2 * i + 2)] + [missing]
            return replace(axis, words=tuple(axis.words[i] for i in needed)), cells
        case "words":
            needed = [i for i in range(len(axis.words)) if (rows[i] != rows[missing - 1]).any()]
            return replace(axis, words=tuple(axis.words[i] for i in needed)), [*needed, missing - 1, missing]
        case _:
            return axis, list(range(axis.n_cells))


def _number_by_appearance(symbols: IntArray) -> tuple[IntArray, IntArray]:
    """Symbols renumbered in the order in which the cells show them, and the old number of each new one."""
    old, first, inverse = np.unique(symbols.reshape(-1), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(old), dtype=np.int64)
    rank[order] = np.arange(len(old))
    return rank[inverse.reshape(-1)].reshape(symbols.shape), old[order]


def _fingerprint(
    axes: tuple[Axis, ...], symbols: bytes, transitions: bytes, accepting: bytes, window: m.Window | None, longest: bool
) -> str:
    digest = hashlib.sha256()
    for part in (repr(axes).encode(), symbols, transitions, accepting, repr((window, longest)).encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:32]


def _limit_error(pattern: m.Pattern, n_states: int, limits: Limits) -> LimitError:
    """The error for a pattern that fits no limit, at the smallest sub-expression that alone is too large."""
    small = replace(limits, nfa_seconds=1.0, dfa_seconds=1.0)
    culprit: m.Regex = pattern.regex
    while True:
        inner = next((part for part in _parts(culprit) if _is_too_large(part, small)), None)
        if inner is None:
            break
        culprit = inner
    message = "this expression needs more states than the limit allows"
    diagnostic = Diagnostic(
        "error",
        f"{message}: at least {n_states:,} were found, the limit is {limits.nfa_states:,} in {limits.nfa_seconds:g} s",
        pattern.source,
        culprit.span,
        label=f"in pattern `{pattern.name}`",
        hint="use smaller bounds, or letters that exclude each other; or raise Limits.nfa_states and nfa_seconds",
    )
    return LimitError(message, n_states, limits.nfa_states, "Limits.nfa_states", diagnostic)


def _parts(regex: m.Regex) -> tuple[m.Regex, ...]:
    match regex:
        case m.Letter():
            return ()
        case m.Complement(body) | m.Iteration(body):
            return (body,)
        case _:
            return regex.parts


def _is_too_large(regex: m.Regex, limits: Limits) -> bool:
    with deep_recursion():
        alphabet = build_alphabet((letter.predicate for letter in letters_of(regex)), limits)
        regexes = Regexes(alphabet.full)
        node = regexes.from_meaning(regex, alphabet.mask_of)
    try:
        linearize(Derivatives(regexes), node, alphabet.n_minterms, limits.nfa_states, limits.nfa_seconds)
    except OverBudgetError:
        return True
    return False
