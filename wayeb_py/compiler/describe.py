"""Subjects, cells and symbols become text that a reader of the pattern recognises."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from wayeb_py.arrays import I64
from wayeb_py.compiler.axes import Axis, Pair, Subject
from wayeb_py.compiler.runs.registers import Marked
from wayeb_py.dsl import meaning as m

MOST_ALTERNATIVES = 6

Names = tuple[str, str]
AB: Names = ("a", "b")  # names of the two of a pair, where those of the file do not matter


def number_text(value: Fraction) -> str:
    """A number as people write it: without a fraction bar where decimals can express it."""
    if value.denominator == 1:
        return str(value.numerator)
    text = f"{float(value):.12g}"
    return text if Fraction(text) == value else f"≈{text}"


def quantity_text(value: Fraction, unit: str) -> str:
    """A number with its unit as people write it: 3600 s are 1 h, 5000 m are 5 km."""
    if unit == " s" and value:
        for seconds, larger in ((86400, "d"), (3600, "h"), (60, "min")):
            if value % seconds == 0:
                return f"{number_text(value / seconds)} {larger}"
    if unit == " m" and abs(value) >= 1000 and value % 100 == 0:
        return f"{number_text(value / 1000)} km"
    return f"{number_text(value)}{unit}"


def amount_text(number: float, unit: str) -> str:
    """A measured number, in a unit that keeps it short."""
    if unit == " s" and abs(number) >= 120:
        minutes, hours, days = number / 60, number / 3600, number / 86400
        if abs(number) < 7200:
            return f"{minutes:.4g} min"
        return f"{hours:.4g} h" if abs(number) < 172800 else f"{days:.4g} d"
    if unit == " m" and abs(number) >= 1000:
        return f"{number / 1000:.4g} km"
    if unit == " m":
        return f"{number:.4g} m"  # positions are not better than that
    return f"{number:.6g}{unit}"


def unit_of(value: Subject) -> str:
    match value:
        case m.Elapsed() | m.ElapsedSince() | m.Held() | m.Since() | m.Age() | m.Tcpa():
            return " s"
        case m.Measure(function="duration"):
            return " s"
        case m.Measure(function="travelled") | m.DistanceFrom():
            return " m"
        case m.Measure(function="count"):
            return ""
        case m.Measure(operand=operand) if operand is not None:
            return unit_of(operand)
        case m.Moved() | m.Distance() | m.Separation() | m.Cpa() | m.Apart():
            return " m"
        case m.Closing():
            return " m/s"
        case m.Bearing():
            return " deg"
        case m.Previous(operand) | m.Of(_, operand) | m.At(_, operand):
            return unit_of(operand)
        case m.Attribute(_, _, unit):
            return f" {unit}" if unit else ""
        case _:
            return ""


def subject_text(subject: Subject | Marked, names: Names = AB) -> str:
    """The subject as it could stand in a pattern; `names` are those of the two of a pair."""
    match subject:
        case m.Attribute(name):
            return name if name.isidentifier() else f"`{name}`"
        case m.Constant(value, kind):
            return (
                f'"{value}"'
                if kind == "text"
                else number_text(value)
                if isinstance(value, Fraction)
                else str(value).lower()
            )
        case m.Elapsed():
            return "elapsed()"
        case m.Moved():
            return "moved()"
        case m.Previous(operand):
            n_before = 1
            while isinstance(operand, m.Previous):
                operand, n_before = operand.operand, n_before + 1
            before = subject_text(operand, names)
            return f"prev({before})" if n_before == 1 else f"prev({before}, {n_before})"
        case m.Held(operand):
            return f"held({subject_text(operand, names)})"
        case m.Hour(zone):
            return f'hour("{zone}")'
        case m.Arithmetic(operator, operands):
            texts = [subject_text(operand, names) for operand in operands]
            if operator == "neg":
                return f"-{texts[0]}"
            if operator in "+-*/":
                return f"({f' {operator} '.join(texts)})"
            return f"{operator}({', '.join(texts)})"
        case m.FunctionCall(name, operands) | m.PredicateCall(name, operands):
            return f"{name}({', '.join(subject_text(operand, names) for operand in operands)})"
        case m.Distance(to):
            return f"distance({_place_text(to)})"
        case m.Near(places, distance_m):
            return f"near({_place_text(places)}, {quantity_text(distance_m, ' m')})"
        case m.Inside(places):
            return f"inside({_place_text(places)})"
        case m.PlaceColumn(places, column):
            return f"{places}.{column}"
        case m.Crossed(places):
            return f"crossed({_place_text(places)})"
        case m.Passed(places, distance_m):
            return f"passed({_place_text(places)}, {quantity_text(distance_m, ' m')})"
        case m.Detected(pattern):
            return f"detected({_pattern_text(pattern)})"
        case m.Since(pattern):
            return f"since({_pattern_text(pattern)})"
        case m.At(register, operand):
            return f"{register}.{subject_text(operand, names)}"
        case m.ElapsedSince(register):
            return f"elapsed({register})"
        case m.DistanceFrom(register):
            return f"distance({register})"
        case Marked(register):
            return f"the event is called {register}"
        case m.Measure(function, operand):
            return f"{function}({'' if operand is None else subject_text(operand, names)})"
        case Pair(left, right):
            return f"{subject_text(left, names)} against {subject_text(right, names)}"
        case m.Always() | m.Never() | m.Compare() | m.Missing() | m.Not() | m.And() | m.Or():
            return predicate_text(subject, names)
        case _:
            return _pair_text(subject, names)


def _pair_text(
    subject: m.Of | m.HoldsOf | m.Age | m.Reports | m.Separation | m.Bearing | m.Closing | m.Cpa | m.Tcpa | m.Apart,
    names: Names,
) -> str:
    """A value or predicate of a pair of entities, or of the members of a rule, which have their own names."""
    name_of = dict(zip(AB, names, strict=True))
    both = ", ".join(names)
    match subject:
        case m.Of(role, m.Attribute() as attribute):
            return f"{name_of.get(role, role)}.{subject_text(attribute)}"
        case m.Of(role, operand) | m.HoldsOf(role, operand):  # `near(port, 5 km)` of a is `near(a, port, 5 km)`
            name, _, rest = subject_text(operand).partition("(")
            return f"{name}({name_of.get(role, role)}, {rest}"
        case m.Age(role):
            return f"age({name_of[role]})"
        case m.Reports(role):
            return f"reports({name_of[role]})"
        case m.Bearing(origin, target):
            return f"bearing({name_of[origin]}, {name_of[target]})"
        case m.Separation():
            return f"distance({both})"
        case m.Apart(first, second):
            return f"distance({first}, {second})"
        case m.Closing():
            return f"closing({both})"
        case m.Cpa():
            return f"cpa({both})"
        case m.Tcpa():
            return f"tcpa({both})"


def _pattern_text(pattern: str) -> str:
    """A pattern's own name, also where another reads it at a place (`for_each.at_place`)."""
    return pattern.partition("\x1f")[0]


def _place_text(place: m.Point | m.Places) -> str:
    if isinstance(place, m.Point):
        return f"point({number_text(place.lon)}, {number_text(place.lat)})"
    return place.name if place.entry is None else f'{place.name}["{place.entry}"]'


def predicate_text(predicate: m.Predicate, names: Names = AB) -> str:
    """The predicate as it could stand in a pattern."""
    match predicate:
        case m.Always():
            return "any"
        case m.Never():
            return "none"
        case m.Compare(comparator, left, right):
            if isinstance(right, m.Constant) and isinstance(right.value, Fraction):
                return f"{subject_text(left, names)} {comparator} {quantity_text(right.value, unit_of(left))}"
            return f"{subject_text(left, names)} {comparator} {subject_text(right, names)}"
        case m.Missing(operand):
            return f"missing({subject_text(operand, names)})"
        case m.Not(operand):
            return f"not ({predicate_text(operand, names)})"
        case m.And(operands):
            return " and ".join(_grouped(operand, m.Or, names) for operand in operands)
        case m.Or(operands):
            return " or ".join(_grouped(operand, m.And, names) for operand in operands)
        case _:
            return subject_text(predicate, names)


def letter_text(letter: m.Letter, names: Names = AB) -> str:
    """A letter as its file writes it, names and units included; with the unit that the file leaves out."""
    plain = predicate_text(letter.predicate, names)
    return plain if plain.startswith(letter.text) else letter.text


def _grouped(predicate: m.Predicate, weaker: type[m.And] | type[m.Or], names: Names) -> str:
    text = predicate_text(predicate, names)
    return f"({text})" if isinstance(predicate, weaker) else text


def cells_text(axis: Axis, cells: Sequence[int], names: Names = AB) -> str:
    """Where a subject lies when it is in one of these cells."""
    name = subject_text(axis.subject, names)
    chosen = sorted(cells)
    missing = axis.n_cells - 1
    match axis.sort:
        case "flags":
            is_called = isinstance(axis.subject, Marked)
            other = name.replace(" is ", " is not ") if is_called else f"not {name}"
            return name if chosen == [1] else f"not ({name})" if isinstance(axis.subject, m.Compare) else other
        case "presence":
            return f"missing({name})" if chosen == [1] else f"not missing({name})"
        case "booleans":
            words = {0: "false", 1: "true", 2: "missing"}
            return f"{name} is {' or '.join(words[cell] for cell in chosen)}"
        case "pairs":
            assert isinstance(axis.subject, Pair)
            left, right = (subject_text(side, names) for side in (axis.subject.left, axis.subject.right))
            signs = {(0,): "<", (1,): "=", (2,): ">", (0, 1): "<=", (1, 2): ">=", (0, 2): "!="}
            present = tuple(cell for cell in chosen if cell != 3)
            parts = [f"{left} {signs[present]} {right}"] if present in signs else [f"{name} known"] if present else []
            return " or ".join(parts + (["one is missing"] if 3 in chosen else []))
        case "numbers":
            parts = [
                _interval(axis, name, first, last) for first, last in _runs([c for c in chosen if c != missing])
            ]
        case "words":
            words_chosen = [cell for cell in chosen if cell < len(axis.words)]
            if len(axis.words) in chosen:
                others = [word for i, word in enumerate(axis.words) if i not in words_chosen]
                parts = [f"{name} is not {' or '.join(_quoted(others))}"] if others else [f"{name} known"]
            else:
                parts = (
                    [f"{name} is {' or '.join(_quoted([axis.words[cell] for cell in words_chosen]))}"]
                    if words_chosen
                    else []
                )
        case "ordered words":
            parts = [
                _word_interval(axis, name, first, last)
                for first, last in _runs([c for c in chosen if c != missing])
            ]
    if missing in chosen:
        parts.append("missing" if parts else f"missing({name})")
    return " or ".join(parts)


def _quoted(words: Sequence[str]) -> list[str]:
    return [f'"{word}"' for word in words]


def _runs(cells: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for cell in cells:
        if found and found[-1][1] == cell - 1:
            found[-1] = (found[-1][0], cell)
        else:
            found.append((cell, cell))
    return found


def _interval(axis: Axis, name: str, first: int, last: int) -> str:
    unit = unit_of(axis.subject)
    below = axis.cuts[first - 1] if first > 0 else None
    above = axis.cuts[last] if last < len(axis.cuts) else None
    if below is None and above is None:
        return f"{name} known"
    if below is not None and above is not None and below.value == above.value:
        return f"{name} = {quantity_text(below.value, unit)}"
    low = "" if below is None else f"{quantity_text(below.value, unit)} {'<' if below.after else '<='} "
    high = "" if above is None else f" {'<=' if above.after else '<'} {quantity_text(above.value, unit)}"
    if not high and below is not None:
        return f"{name} {'>' if below.after else '>='} {quantity_text(below.value, unit)}"
    return f"{low}{name}{high}"


def _word_interval(axis: Axis, name: str, first: int, last: int) -> str:
    if first == last and first % 2:
        return f'{name} = "{axis.words[first // 2]}"'
    low = "" if first == 0 else f'"{axis.words[(first - 1) // 2]}" {"<=" if first % 2 else "<"} '
    high = "" if last == 2 * len(axis.words) else f' {"<=" if last % 2 else "<"} "{axis.words[last // 2]}"'
    return f"{low}{name}{high}" if low or high else f"{name} known"


def symbol_texts(axes: tuple[Axis, ...], symbol_of_cell: I64, n_symbols: int, names: Names = AB) -> list[str]:
    """The events that each symbol stands for."""
    if not axes:
        return ["any"] * n_symbols
    texts = []
    for symbol in range(n_symbols):
        blocks = _blocks(axes, symbol_of_cell == symbol, names)
        shown = [" and ".join(_apart(part, block) for part in block) or "any" for block in blocks[:MOST_ALTERNATIVES]]
        more = len(blocks) - len(shown)
        texts.append("; or ".join(shown) + (f"; or {more} more" if more > 0 else ""))
    return texts


def _apart(part: str, block: list[str]) -> str:
    return f"({part})" if " or " in part and len(block) > 1 else part


def _blocks(
    axes: tuple[Axis, ...], chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], names: Names
) -> list[list[str]]:
    """The chosen combinations of cells as conjunctions, cells of the first axis with the same rest taken together."""
    if not axes:
        return [[]] if chosen else []
    rests: dict[bytes, list[int]] = {}
    for cell in range(axes[0].n_cells):
        rests.setdefault(np.ascontiguousarray(chosen[cell]).tobytes(), []).append(cell)
    found = []
    for cells in rests.values():
        own = [] if len(cells) == axes[0].n_cells else [cells_text(axes[0], cells, names)]
        found += [own + rest for rest in _blocks(axes[1:], chosen[cells[0]], names)]
    return found
