"""Decodes records, and removes the records that `processing.where` filters out.

A record that is filtered out adds no column. If the condition is FALSE, the record isn't validated.
To save time, records are decoded completely, and then filtered. Refused records are decoded a
second time, with only the columns that the condition reads. A batch with new fields is also decoded
again: first with only these columns, then with all columns for the records that pass the filter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.expressions import RowExpressions
from bayou.ingest.decode import Decoded, DecodePlan
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat
from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import StructType


class FilteredDecoder:
    """Decodes records of one format to the columns of a plan and filters them. Not thread-safe.

    Attributes:
        decoder: decoder without the filter.
    """

    def __init__(self, format: RecordFormat, plan: DecodePlan, expressions: RowExpressions) -> None:
        where = expressions.where
        if where is not None:
            # Without the field's value, it isn't known whether the condition is TRUE.
            plan = replace(plan, needed=where.unseen)
        self.decoder = RecordDecoder(format, plan)
        self._expressions = expressions
        if where is not None:
            read = where.fields
            columns = StructType(tuple(f for f in plan.columns if f.name.lower() in read))
            # Discover only fields of the condition; the remaining records report other new fields.
            discover = plan.discover and bool(where.unseen)
            where_plan = replace(
                plan,
                columns=columns,
                json_schema=None,
                only=read,
                discover=discover,
                ignore=not discover,
                widens=False,
            )
            self._where_decoder = RecordDecoder(replace(format, json_schema=None), where_plan)

    def decode(self, values: pa.Array[Any], source: pa.RecordBatch) -> Decoded:
        """Decode values as `JsonDecoder.decode` does, and filter them.

        Args:
            source: the records of the values, with the columns of the Kafka source.
        """
        decoded = self.decoder.decode(values)
        if self._expressions.where is None:
            return decoded
        if decoded.new_fields.fields:
            return self._decode_remaining(values, source)
        decoded = self._expressions.filter(decoded, source)
        if not len(decoded.bad_positions):
            return decoded
        # After `filter`, so that a record for which the condition fails stays refused.
        refused = decoded.bad_positions
        inputs = _at(self._where_decoder.decode(values.take(refused)), refused)
        if inputs.new_fields.fields:
            return inputs
        rejected = self._expressions.rejected(inputs, source)
        kept = pc.invert(pc.is_in(refused, value_set=rejected))
        return replace(
            decoded,
            bad_positions=refused.filter(kept),
            reasons=decoded.reasons.filter(kept),
            filtered=pa.concat_arrays([decoded.filtered, rejected]),
        )

    def _decode_remaining(self, values: pa.Array[Any], source: pa.RecordBatch) -> Decoded:
        """Decode a batch with new fields; new fields of filtered records aren't reported."""
        inputs = self._where_decoder.decode(values)
        if inputs.new_fields.fields:
            return inputs
        positions = pa.array(range(len(values)), pa.int64())
        rejected = self._expressions.rejected(inputs, source)
        filtered = self._expressions.filter(inputs, source).filtered
        # A record with the condition NULL is filtered out if it is valid, and refused otherwise.
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
    """Map the positions of decoded values: position `i` becomes `positions[i]`."""
    return replace(
        decoded,
        positions=positions.take(decoded.positions),
        bad_positions=positions.take(decoded.bad_positions),
    )
