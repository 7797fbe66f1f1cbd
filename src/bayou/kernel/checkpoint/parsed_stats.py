"""Statistics as columns, `stats_parsed` (PROTOCOL.md, Checkpoints, Per-file Statistics)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.arrow.types import to_arrow_type
from bayou.protocol.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DecimalType,
    StructType,
)

__all__ = ["full_stats_type", "parsed_stats_schema", "stats_texts"]

pc: Any = pyarrow.compute

_WITH_BOUNDS = (
    BYTE,
    SHORT,
    INTEGER,
    LONG,
    FLOAT,
    DOUBLE,
    STRING,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)
_BOUNDS = ("minValues", "maxValues")


def parsed_stats_schema(stats_schema: pa.Schema, schema: StructType) -> pa.Schema:
    """What a plan wants of the statistics, in the types that they have as columns.

    Args:
        stats_schema: of the JSON text, by logical names: dates and timestamps are strings.
        schema: the table's.
    """
    fields: list[pa.Field[Any]] = [
        f.with_type(_bounds(f.type, schema)) if f.name in _BOUNDS else f for f in stats_schema
    ]
    return pa.schema(fields)


def _bounds(kind: Any, schema: StructType) -> pa.DataType:
    fields = []
    for wanted in kind:
        column = schema.get(wanted.name)
        assert column is not None  # the plan was built from this schema
        data_type = column.data_type
        if isinstance(data_type, StructType):
            fields.append(pa.field(wanted.name, _bounds(wanted.type, data_type)))
        elif data_type in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            fields.append(pa.field(wanted.name, to_arrow_type(data_type)))
        else:
            fields.append(wanted)
    return pa.struct(fields)


def full_stats_type(schema: StructType) -> pa.DataType:
    """All statistics that a table's columns may have, by physical names.

    Args:
        schema: the table's, by physical names.
    """
    fields: list[pa.Field[Any]] = [pa.field("numRecords", pa.int64())]
    bounds = _leaves(schema, bounds=True)
    if bounds.num_fields:
        fields += [pa.field("minValues", bounds), pa.field("maxValues", bounds)]
    counts = _leaves(schema, bounds=False)
    if counts.num_fields:
        fields.append(pa.field("nullCount", counts))
    fields.append(pa.field("tightBounds", pa.bool_()))
    return pa.struct(fields)


def stats_texts(parsed: pa.StructArray) -> pa.Array[Any]:
    """Statistics as `add.stats` has them, JSON text; null where there are none."""
    missing: pa.Scalar[Any] = pa.scalar(None, pa.string())
    texts: pa.Array[Any] = pc.if_else(pc.is_valid(parsed), _object(parsed), missing)
    return texts


def _leaves(schema: StructType, *, bounds: bool) -> pa.StructType:
    fields: list[pa.Field[Any]] = []
    for column in schema:
        data_type = column.data_type
        if isinstance(data_type, StructType):
            nested = _leaves(data_type, bounds=bounds)
            if nested.num_fields:
                fields.append(pa.field(column.name, nested))
        elif isinstance(data_type, DecimalType) or data_type in _WITH_BOUNDS:
            fields.append(pa.field(column.name, to_arrow_type(data_type) if bounds else pa.int64()))
        elif not bounds and data_type != VOID:
            fields.append(pa.field(column.name, pa.int64()))
    return pa.struct(fields)


def _object(struct: Any) -> Any:
    """One JSON object a row, without its null members."""
    members = []
    for field, values in zip(struct.type, struct.flatten(), strict=True):
        name = json.dumps(field.name, ensure_ascii=False)
        text = _object(values) if pa.types.is_struct(field.type) else _value(values)
        text = pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))
        members.append(pc.binary_join_element_wise(f"{name}:", text, ""))
    if not members:
        return pa.repeat(pa.scalar("{}"), len(struct))
    # A first member that isn't null: pyarrow loses rows in which all are.
    body = pc.binary_join_element_wise("", *members, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(body, 1), "}", "")


def _value(values: Any) -> Any:
    kind = values.type
    if pa.types.is_string(kind):
        return _quoted(values)
    if pa.types.is_boolean(kind):
        return pc.if_else(values, "true", "false")
    texts = pc.cast(values, pa.string())
    if pa.types.is_floating(kind):
        texts = pc.if_else(pc.equal(texts, "-0"), "-0.0", texts)  # an integer has no sign there
        # JSON has none of them: Spark writes strings.
        for known, name in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            texts = pc.if_else(pc.equal(texts, known), f'"{name}"', texts)
        return texts
    if pa.types.is_timestamp(kind):
        return pc.binary_join_element_wise(
            '"', pc.replace_substring(texts, " ", "T", max_replacements=1), '"', ""
        )
    if pa.types.is_date(kind):
        return pc.binary_join_element_wise('"', texts, '"', "")
    return texts


def _quoted(texts: Any) -> Any:
    if pc.any(pc.match_substring_regex(texts, "[\\x00-\\x1f]")).as_py():
        return pa.array(
            [None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()],
            pa.string(),
        )
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise('"', escaped, '"', "")
