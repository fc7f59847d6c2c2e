"""A provider's columns become columns of the vocabulary: renamed, in one unit, codes as words, times as instants."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.files.formats.block import AsideRow, Block, row_values
from wayeb_py.files.formats.lenient_parse import convert
from wayeb_py.providers.formats import ProviderFormat

WRAP_DEG = 409.6  # 2^12 tenths of a degree

# A number of seconds since 1970 is about 10^9, of milliseconds 10^12, and so on.
_UNITS_BY_MAGNITUDE = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (0.0, "s"))


def unit_of_times(numbers: pa.Array | pa.ChunkedArray) -> str:
    """The unit in which these numbers are times of this century: s, ms, us or ns."""
    greatest = pc.max(pc.abs(numbers)).as_py() or 0
    return next(unit for least, unit in _UNITS_BY_MAGNITUDE if greatest >= least)


def as_instants(times: pa.Array, target: pa.DataType, day_first: bool, unit: str | None = None) -> pa.Array:
    """The times in the target type, null where they cannot be read; times without a zone are UTC.

    The size of a number shows its unit where none is given.
    """
    if pt.is_dictionary(times.type):
        times = times.dictionary_decode()
    if pt.is_timestamp(times.type):
        return _zoned(times, target)
    if pt.is_date(times.type):
        return times.cast(pa.timestamp("s")).cast(pa.timestamp(target.unit)).cast(target)
    if pt.is_integer(times.type) or pt.is_floating(times.type):
        return _from_numbers(times, target, unit)
    texts = times.cast(pa.string())
    if day_first:
        texts = pc.replace_substring_regex(texts, r"^\s*(\d{2})/(\d{2})/(\d{4})", r"\3-\2-\1")
    elif pc.all(pc.match_substring_regex(texts.drop_null(), r"^\s*\d+(\.\d+)?\s*$")).as_py() and len(texts.drop_null()):
        return _from_numbers(convert(texts, pa.float64())[0], target, unit)
    return convert(texts, target)[0]


def _zoned(times: pa.Array, target: pa.DataType) -> pa.Array:
    # Cutting a fraction finer than the target's is meant; Arrow calls it a loss.
    return times.cast(pa.timestamp(times.type.unit, "UTC")).cast(target, safe=False)


def _from_numbers(numbers: pa.Array, target: pa.DataType, unit: str | None) -> pa.Array:
    known = unit or unit_of_times(numbers)
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    if pt.is_integer(numbers.type):
        return _zoned(numbers.cast(pa.int64()).cast(pa.timestamp(known)), target)
    values = numbers.to_numpy(zero_copy_only=False)
    readable = np.isfinite(values)
    ticks = np.round(np.where(readable, values, 0.0) * (per_s[target.unit] / per_s[known]))
    return pa.array(ticks.astype(np.int64), mask=~readable).cast(pa.timestamp(target.unit)).cast(target)


class Translator:
    """Turns batches with a provider's columns into batches with those of the vocabulary."""

    def __init__(
        self, form: ProviderFormat, source_of: Mapping[str, str], schema: pa.Schema, time_unit: str | None = None
    ) -> None:
        self.form, self.source_of, self.schema, self.time_unit = form, source_of, schema, time_unit

    def translate(self, block: Block, file: str) -> Block:
        """The block in the vocabulary; rows whose time cannot be read go aside."""
        translated = Block([], block.n_rows, block.n_bytes, block.aside, dict(block.unreadable))
        for batch in block.batches:
            arrays = [self._column(field, batch) for field in self.schema]
            result = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            lacking = pc.is_null(result.column(self.form.time))
            if pc.any(lacking).as_py():
                for row in np.flatnonzero(lacking.to_numpy(zero_copy_only=False)).tolist():
                    values = row_values(batch, row)
                    translated.aside.append(AsideRow(file, None, "the time cannot be read", values))
                result = result.filter(pc.invert(lacking))
            if result.num_rows:
                translated.batches.append(result)
        return translated

    def _column(self, field: pa.Field, batch: pa.RecordBatch) -> pa.Array:
        source = self.source_of.get(field.name)
        if source is None:
            return pa.nulls(batch.num_rows, field.type)
        values = batch.column(source)
        if field.name == self.form.time:
            return as_instants(values, field.type, self.form.time_spelling == "day first", self.time_unit)
        if pt.is_dictionary(values.type):
            values = values.dictionary_decode()
        if field.name in self.form.codes:
            return _decode(values, self.form.codes[field.name])
        if pt.is_string(field.type):
            if not pt.is_string(values.type):
                values = _texts(values)
            return _reword(values, self.form.words[field.name]) if field.name in self.form.words else values
        values = values.cast(field.type)
        if field.name in self.form.factors:
            values = _scaled(values, self.form.factors[field.name])
        if field.name == "course" and self.form.wraps_course:
            values = _unwrap(values)
        return values


def _texts(values: pa.Array) -> pa.Array:
    """Values as texts; whole numbers without the fraction that a guessed type gave them."""
    if pt.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        if np.all(np.isnan(numbers) | (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)):
            values = values.cast(pa.int64())
    return values.cast(pa.string())


def _scaled(values: pa.Array, factor: Fraction) -> pa.Array:
    """The values times the factor: first times a whole number, then by a whole divisor, so that 3 tenths are exactly
    0.3."""
    scaled = values if factor.numerator == 1 else pc.multiply(values, float(factor.numerator))
    return scaled if factor.denominator == 1 else pc.divide(scaled, float(factor.denominator))


def _decode(values: pa.Array, words: Mapping[int, str]) -> pa.Array:
    """Words for codes; a code without a word becomes missing."""
    codes = convert(values.cast(pa.string()), pa.float64())[0] if pt.is_string(values.type) else values
    at = pc.index_in(codes.cast(pa.float64()), pa.array([float(code) for code in words]))
    return pa.array(list(words.values()), pa.string()).take(at)


def _reword(values: pa.Array, words: Mapping[str, str | None]) -> pa.Array:
    """The words in lower case, since `Fishing` and `fishing` are one type, and our word where the provider has
    another."""
    encoded = values.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    ours = [words.get(word.strip().casefold(), word.strip().casefold()) for word in known]
    if words.keys() == {"unknown"}:  # names keep their case
        ours = [word if mine is not None else None for word, mine in zip(known, ours, strict=True)]
    return pa.array(ours, pa.string()).take(encoded.indices)


def _unwrap(course: pa.Array) -> pa.Array:
    """Courses that overflowed become 0 to 360 degrees; 360 means none and stays."""
    return pc.if_else(pc.less(course, 0.0), pc.round(pc.add(course, WRAP_DEG), 1), course)
