"""Pads CHAR values with spaces in rows that Spark doesn't pad.

If a filter compares a CHAR column with a literal, Spark pads the literal, and expects padded values
in the column (`ApplyCharTypePadding`). Spark pads the values of its own scans, and of batch reads
of a Python data source. But Spark doesn't pad the rows of streams and of `mapInArrow`. If these
rows weren't padded, such a filter would drop matching rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import SchemaJsonError, StructField, StructType
from bayou.protocol.sql import length_limits
from bayou.spark.hooks.requests import ReadRequest
from bayou.spark.session.settings import conf_flag
from bayou.spark.streaming.options import PADS_CHAR

_READ_SIDE_PADDING = "spark.sql.readSideCharPadding"
_AS_STRING = "spark.sql.legacy.charVarcharAsString"


def pads_char(spark: Any) -> bool:
    """Whether Spark pads CHAR values when a session reads a table; true by default."""
    return conf_flag(spark, _READ_SIDE_PADDING, default=True) and not conf_flag(spark, _AS_STRING)


def pass_to_stream(request: ReadRequest) -> Any:
    """Handler of the hook `stream_load`: set the option `PADS_CHAR` from the session's settings.

    Returns NotImplemented, so that the next handler is called.
    """
    if not pads_char(request.spark):
        request.reader.option(PADS_CHAR, "false")
    return NotImplemented


class CharPadding:
    """Pads the CHAR values of batches, including nested values.

    Args:
        schema: the columns of the batches. Their metadata contains the CHAR types.
    """

    def __init__(self, schema: StructType) -> None:
        lengths = ((index, _char_lengths(field)) for index, field in enumerate(schema))
        self._columns = [(index, of_column) for index, of_column in lengths if of_column]

    def pad(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with padded values. Nulls and longer values stay unchanged."""
        for index, lengths in self._columns:
            padded = _padded(batch.column(index), lengths)
            batch = batch.set_column(index, batch.schema.field(index), padded)
        return batch


def _char_lengths(field: StructField) -> dict[tuple[str, ...], int]:
    """Return the length of each CHAR type in a column, by the type's path within the column."""
    with contextlib.suppress(SchemaJsonError):  # a type of a later version of Spark
        return {i.path: i.max_length for i in length_limits(field) if i.kind == "char"}
    return {}


def _padded(array: Any, lengths: Mapping[tuple[str, ...], int]) -> Any:
    arrow_type = array.type
    if pa.types.is_string(arrow_type):
        return pc.utf8_rpad(array, lengths[()]) if () in lengths else array
    if pa.types.is_struct(arrow_type):
        children = [
            _padded(array.field(index), _inside(field.name, lengths))
            for index, field in enumerate(arrow_type)
        ]
        mask = pc.is_null(array) if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(arrow_type), mask=mask)
    if pa.types.is_map(arrow_type):
        keys = _padded(array.keys, _inside("key", lengths))
        items = _padded(array.items, _inside("value", lengths))
        fields = [arrow_type.key_field, arrow_type.item_field]
        return _with_child(array, pa.StructArray.from_arrays([keys, items], fields=fields))
    if pa.types.is_list(arrow_type):
        return _with_child(array, _padded(array.values, _inside("element", lengths)))
    return array


def _inside(step: str, lengths: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    return {path[1:]: length for path, length in lengths.items() if path[:1] == (step,)}


def _with_child(array: Any, child: Any) -> Any:
    return pa.Array.from_buffers(
        array.type, len(array), array.buffers()[:2], offset=array.offset, children=[child]
    )
