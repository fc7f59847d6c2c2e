"""Takes the needed columns of a batch in the types of the first batch; raises where one is missing or does not fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

import pyarrow as pa

from wayeb_py.columns import kind_of
from wayeb_py.engine.arrow_values import plain, takeable
from wayeb_py.engine.rows.detection_schema import value_type
from wayeb_py.errors import EventsError
from wayeb_py.files.projection import Need


class Conformer:
    """The needed part of a schema, and batches brought to it."""

    def __init__(self, needs: Iterable[Need], schema: pa.Schema) -> None:
        self.schema = _needed_part(needs, schema)
        self._fitting: tuple[pa.Schema, list[int]] | None = None  # a schema that batches had, and where its columns are
        self._is_whole = False  # whether such batches have these columns alone, in their order

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The needed columns in the types of the first batch."""
        if self._fitting is not None and batch.schema.equals(self._fitting[0]):
            return batch if self._is_whole else batch.select(self._fitting[1])
        fits = True
        arrays = []
        for field in self.schema:
            place = batch.schema.get_field_index(field.name)
            if place < 0:
                raise EventsError(f"a batch lacks the column `{field.name}`, which the first one had")
            array = batch.column(place)
            wanted = takeable(value_type(field.type))
            if value_type(array.type) != wanted:
                fits = False
                try:
                    array = plain(array).cast(wanted)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise EventsError(
                        f"the column `{field.name}` was {value_type(field.type)} and is now {array.type}: {error}"
                    ) from None
            arrays.append(array)
        if fits:
            places = [batch.schema.get_field_index(field.name) for field in self.schema]
            self._fitting, self._is_whole = (batch.schema, places), places == [*range(len(batch.schema))]
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)


def with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Events that a state has held back, with the columns of a schema; one that no pattern read before is missing."""
    arrays = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _needed_part(needs: Iterable[Need], schema: pa.Schema) -> pa.Schema:
    """The needed part of the schema; raises EventsError where something is missing or of the wrong kind."""
    fields = {}
    for need in needs:
        place = schema.get_field_index(need.column)
        if place < 0:
            near = get_close_matches(need.column, schema.names, n=1)
            present = f"the events have: {', '.join(schema.names)}" if schema.names else "the events have no columns"
            hint = f"did you mean `{near[0]}`?" if near else present
            raise EventsError(f"the events have no column `{need.column}`", need.diagnostic, hint)
        field = schema.field(place)
        kind = kind_of(field.type)
        wanted = need.kind
        if need.role == "attribute" and wanted is not None and kind != wanted and not pa.types.is_null(field.type):
            message = f"the column `{need.column}` is {kind or field.type}, and the pattern uses it as {wanted}"
            raise EventsError(
                message,
                None if need.diagnostic is None else replace(need.diagnostic, message=message),
                f"the events have `{need.column}` as {field.type}: convert the column, or change the pattern",
            )
        if need.role == "order" and kind not in ("number", "time") and not pa.types.is_null(field.type):
            raise EventsError(
                f"the order column `{need.column}` is {kind or field.type}", hint="order by a number or a time"
            )
        fields[need.column] = field
    return pa.schema(list(fields.values()))
