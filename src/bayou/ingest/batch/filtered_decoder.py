"""Decodes records, and removes records that don't meet the condition `processing.where`.

New fields of removed records don't become columns. If the condition is FALSE for a record, the
record is removed even if it is invalid.

First, all columns of a batch are decoded, and the filter is applied. No other step is needed if all
records are valid and no record has a new field.

If records are invalid, only the columns that the condition reads are decoded from these records. An
invalid record is removed if the condition is FALSE for it. Otherwise it becomes a dead letter.

If the batch has new fields, only the columns that the condition reads are decoded from all records.
Then all columns are decoded from the records that pass the filter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.expressions import RowExpressions
from bayou.ingest.decode import Decoded, DecodePlan
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat
from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import StructType


class FilteredDecoder:
    """Decodes records of one format to the columns of a `DecodePlan`, and filters them.

    Not thread-safe.

    Attributes:
        decoder: decoder without the filter.
    """

    def __init__(self, format: RecordFormat, plan: DecodePlan, expressions: RowExpressions) -> None:
        where = expressions.where
        self.decoder = RecordDecoder(format, plan)
        self._expressions = expressions
        if where is not None:
            read = where.fields
            columns = StructType(tuple(f for f in plan.columns if f.name.lower() in read))
            # Report only new fields that the condition reads. All other new fields are reported by
            # `decoder`, which only decodes the records that the condition selects.
            discover = plan.discover and bool(where.unseen)
            where_plan = replace(
                plan,
                columns=columns,
                json_schema=None,
                needed=where.unseen,
                only=read,
                discover=discover,
                ignore=not discover,
                widens=False,
            )
            self._where_decoder = RecordDecoder(replace(format, json_schema=None), where_plan)

    def decode(self, values: pa.Array[Any], source: pa.RecordBatch) -> Decoded:
        """Decode the values of records, and filter the records.

        Args:
            values: the binary values of the records.
            source: the records, with the columns of the Kafka source.

        Returns:
            The rows of the records that pass the filter. If the result has `new_fields`, rows may
            be missing, and the batch must be decoded again with these fields in the plan.
        """
        decoded = self.decoder.decode(values)
        if self._expressions.where is None:
            return decoded
        if decoded.new_fields.fields:
            return self._decode_remaining(values, source)
        decoded = self._expressions.filter(decoded, source)
        if not len(decoded.bad_positions):
            return decoded
        # The records that `filter` refused, because the condition fails for them, are included.
        # They aren't in `rejected`, so they stay refused.
        refused = decoded.bad_positions
        inputs = _at(self._where_decoder.decode(values.take(refused)), refused)
        if inputs.new_fields.fields:
            return inputs
        rejected = self._expressions.rejected(inputs, source)
        still_refused = pc.invert(pc.is_in(refused, value_set=rejected))
        return replace(
            decoded,
            bad_positions=refused.filter(still_refused),
            reasons=decoded.reasons.filter(still_refused),
            filtered=pa.concat_arrays([decoded.filtered, rejected]),
        )

    def _decode_remaining(self, values: pa.Array[Any], source: pa.RecordBatch) -> Decoded:
        """Filter a batch that has new fields, then decode the remaining records.

        New fields of the removed records aren't returned. If the condition reads new fields, the
        result has only these new fields, and no rows.
        """
        inputs = self._where_decoder.decode(values)
        if inputs.new_fields.fields:
            return inputs
        positions = arange(0, len(values))
        rejected = self._expressions.rejected(inputs, source)
        filtered = self._expressions.filter(inputs, source).filtered
        # A record for which the condition is NULL is filtered out if it is valid, else refused.
        unknown = filtered.filter(pc.invert(pc.is_in(filtered, value_set=rejected)))
        checked = _at(self.decoder.decode(values.take(unknown)), unknown)
        invalid = checked.bad_positions
        remaining = positions.filter(pc.invert(pc.is_in(positions, value_set=filtered)))
        decoded = _at(self.decoder.decode(values.take(remaining)), remaining)
        decoded = self._expressions.filter(decoded, source)
        valid = filtered.filter(pc.invert(pc.is_in(filtered, value_set=invalid)))
        return replace(
            decoded,
            bad_positions=pa.concat_arrays([decoded.bad_positions, invalid]),
            reasons=pa.concat_arrays([decoded.reasons, checked.reasons]),
            filtered=pa.concat_arrays([valid, decoded.filtered]),
        )


def _at(decoded: Decoded, positions: pa.Array[Any]) -> Decoded:
    """Convert positions in a part of a batch to positions in the whole batch.

    Args:
        decoded: the result of decoding the part.
        positions: for each record of the part, its position in the whole batch.
    """
    return replace(
        decoded,
        positions=positions.take(decoded.positions),
        bad_positions=positions.take(decoded.bad_positions),
    )
