"""Splits records by the value of the `route-by` expression, before all their fields are decoded.

The router only decodes the fields that `route-by` and `processing.where` read. It also removes the
records that `where` filters out, so that no table is created for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.expressions import RowExpression, RowExpressions
from bayou.ingest.config.routing import value_fingerprint, value_name
from bayou.ingest.dead_letters.records import dead_letter_rows
from bayou.ingest.decode import Decoded, DecodePlan, merge_fields
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat
from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import StructType

DEFAULT_TABLE = 0
"""The number of the default table. A table's number is its index in `RoutedBatchTask.outputs`."""

_DEAD_LETTER = -1
_UNKNOWN = -2
_MAX_VALUE = 100
_MAX_NEW_VALUES = 10_000
SETTING = "destination.route-by"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRouting:
    """The rules for splitting records by table. Can be pickled.

    Attributes:
        plan: the plan for decoding the fields that the expressions read.
        expressions: the condition `where`, and the masks that are applied to fields before
            expressions are evaluated.
        value: the expression of `route-by`, which returns a string.
        listed: for each value in `route-by.tables`, the number of its table; see `DEFAULT_TABLE`.
            If the table isn't known yet, the number is None, and the router counts the value in
            `RecordRouter.new_values`.
        named: the known tables whose paths contain a `value_name`. The keys are these names. The
            values are pairs: the table's number, and the `value_fingerprint` of the value with this
            name.
        reserved: the result of `reserved_names`.
        refused: for each value whose table can't be used, the reason.
        unknown: what happens to the records of all other values. If a number, they go to the table
            with this number. If a string, they become dead letters with this reason. If None, the
            router counts the values in `RecordRouter.new_values`.
        null: the number of the table for records whose value is NULL; None if these records become
            dead letters.
        ingestion_timestamp: the `_ingestion_timestamp` of dead letters, in microseconds since the
            epoch.
    """

    plan: DecodePlan
    format: RecordFormat
    expressions: RowExpressions
    value: RowExpression
    listed: Mapping[str, int | None]
    named: Mapping[str, tuple[int, int]]
    reserved: frozenset[str]
    refused: Mapping[str, str]
    unknown: int | str | None
    null: int | None
    ingestion_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedRecords:
    """A batch of records, split by table.

    Attributes:
        tables: for each table number, the records of the table in their original order.
        dead_letters: dead letters of the records without a table; None if there are none.
    """

    tables: Mapping[int, pa.RecordBatch]
    dead_letters: pa.RecordBatch | None


class RecordRouter:
    """Splits batches of records by table. Not thread-safe.

    Attributes:
        new_fields: fields that an expression reads and for which no column exists yet. As soon as
            there are such fields, `split` returns no records.
        new_values: for each value whose table isn't known, the number of records with the value. At
            most 10,000 values are counted.
        filtered: number of records that `where` has filtered out.
    """

    def __init__(self, routing: RecordRouting) -> None:
        self._routing = routing
        self._decoder = RecordDecoder(routing.format, routing.plan)
        self.new_fields = StructType()
        self.new_values: Counter[str] = Counter()
        self.filtered = 0

    def split(self, source: pa.RecordBatch) -> RoutedRecords:
        """Split a batch of records. The batch has the columns of the Kafka source."""
        routing = self._routing
        decoded = self._decoder.decode(source.column("value"))
        self.new_fields = merge_fields(self.new_fields, decoded.new_fields)
        if self.new_fields.fields:
            return RoutedRecords(tables={}, dead_letters=None)
        if routing.expressions.where is not None:
            decoded = routing.expressions.filter(decoded, source)
            self.filtered += len(decoded.filtered)
        decoded, values = routing.expressions.evaluate(routing.value, decoded, source)
        encoded: Any = values.cast(pa.string()).dictionary_encode()
        names: list[Any] = encoded.dictionary.to_pylist()
        value_targets = [self._target_of(name) for name in names]
        numbers = [_number(target) for target in value_targets]
        null = _DEAD_LETTER if routing.null is None else routing.null
        # A null value gets an index after the indexes of all other values.
        indices = pc.fill_null(encoded.indices, len(numbers)).cast(pa.int64())
        targets = pa.array([*numbers, null], pa.int64()).take(indices)
        if _UNKNOWN in numbers:
            self._count_new(names, numbers, indices)
        if _DEAD_LETTER in numbers or null == _DEAD_LETTER:
            refused = pc.equal(targets, _DEAD_LETTER)
            reasons = pa.array([*map(_reason, names, value_targets), _NULL_REASON], pa.string())
            decoded = replace(
                decoded,
                bad_positions=pa.concat_arrays(
                    [decoded.bad_positions, decoded.positions.filter(refused)]
                ),
                reasons=pa.concat_arrays([decoded.reasons, reasons.take(indices.filter(refused))]),
            )
        tables = {
            number: _taken(source, decoded.positions.filter(pc.equal(targets, number)))
            for number in pc.unique(targets).to_pylist()
            if number >= 0
        }
        return RoutedRecords(tables=tables, dead_letters=self._dead_letters(decoded, source))

    def _dead_letters(self, decoded: Decoded, source: pa.RecordBatch) -> pa.RecordBatch | None:
        if not len(decoded.bad_positions):
            return None
        return dead_letter_rows(decoded, source, self._routing.ingestion_timestamp)

    def _target_of(self, value: str) -> int | str | None:
        """Return the number of the table for a value, or the reason why there is no table for it.

        The result is None if the table isn't known yet.
        """
        routing = self._routing
        if value in routing.listed:
            return routing.listed[value]
        if value in routing.refused:
            return routing.refused[value]
        if routing.named:
            name = value_name(value, plain=value not in routing.reserved)
            number, fingerprint = routing.named.get(name, (None, 0))
            if number is not None:
                if fingerprint != value_fingerprint(value):
                    return f"has the same table name as another value: {name}"
                return number
        return routing.unknown

    def _count_new(self, names: list[Any], numbers: list[int], indices: pa.Array[Any]) -> None:
        counts: Any = pc.value_counts(indices)
        for row in counts.to_pylist():
            index = row["values"]
            if index < len(numbers) and numbers[index] == _UNKNOWN:
                name = names[index]
                if name in self.new_values or len(self.new_values) < _MAX_NEW_VALUES:
                    self.new_values[name] += row["counts"]


def _number(target: int | str | None) -> int:
    match target:
        case None:
            return _UNKNOWN
        case int():
            return target
        case _:
            return _DEAD_LETTER


def _reason(value: str, target: int | str | None) -> str:
    shown = value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}..."
    return f"{SETTING}: the value {shown!r} {target}"


_NULL_REASON = f"{SETTING}: the value is NULL, and on-null is dead-letter"


def _taken(source: pa.RecordBatch, positions: pa.Array[Any]) -> pa.RecordBatch:
    return source if len(positions) == source.num_rows else source.take(positions)
