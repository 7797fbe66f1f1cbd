"""Statistics as a struct: the field `stats_parsed` of checkpoints (PROTOCOL.md, Checkpoints)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import pc
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
    """Return the schema to read from `stats_parsed` for data skipping.

    Args:
        stats_schema: schema of the same statistics in JSON (`SkippingPlan.stats_schema`).
        schema: the table's schema.
    """
    fields: list[pa.Field[Any]] = [
        f.with_type(_bounds(f.type, schema)) if f.name in _BOUNDS else f for f in stats_schema
    ]
    return pa.schema(fields)


def _bounds(kind: Any, schema: StructType) -> pa.DataType:
    fields = []
    for field in kind:
        column = schema.get(field.name)
        assert column is not None  # the plan was built from this schema
        data_type = column.data_type
        if isinstance(data_type, StructType):
            fields.append(pa.field(field.name, _bounds(field.type, data_type)))
        elif data_type in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            fields.append(pa.field(field.name, to_arrow_type(data_type)))
        else:
            fields.append(field)
    return pa.struct(fields)


def full_stats_type(schema: StructType) -> pa.DataType:
    """Return the type of `stats_parsed` with all possible statistics.

    Args:
        schema: the table's schema, with physical names.
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


def stats_to_json(parsed: pa.StructArray) -> pa.Array[Any]:
    """Convert `stats_parsed` to JSON for `add.stats`; null for a file without statistics."""
    missing: pa.Scalar[Any] = to_scalar(None, pa.string())
    json_strings: pa.Array[Any] = pc.if_else(pc.is_valid(parsed), _json_objects(parsed), missing)
    return json_strings


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


def _json_objects(struct: Any) -> Any:
    """Return one JSON object for each row; null fields are omitted."""
    members = []
    for field, values in zip(struct.type, struct.flatten(), strict=True):
        name = json.dumps(field.name, ensure_ascii=False)
        value = _json_objects(values) if pa.types.is_struct(field.type) else _json_values(values)
        value = pc.if_else(pc.is_valid(values), value, to_scalar(None, pa.string()))
        members.append(pc.binary_join_element_wise(f"{name}:", value, ""))
    if not members:
        return pa.repeat(to_scalar("{}", pa.string()), len(struct))
    # With the empty first member, no row has only null members; pyarrow would drop such a row.
    body = pc.binary_join_element_wise("", *members, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(body, 1), "}", "")


def _json_values(values: Any) -> Any:
    kind = values.type
    if pa.types.is_string(kind):
        return _json_strings(values)
    if pa.types.is_boolean(kind):
        return pc.if_else(values, "true", "false")
    strings = pc.cast(values, pa.string())
    if pa.types.is_floating(kind):
        strings = pc.if_else(pc.equal(strings, "-0"), "-0.0", strings)  # keeps the sign in JSON
        # JSON has no literals for these values; Spark writes strings.
        for arrow_name, name in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            strings = pc.if_else(pc.equal(strings, arrow_name), f'"{name}"', strings)
        return strings
    if pa.types.is_timestamp(kind):
        return pc.binary_join_element_wise(
            '"', pc.replace_substring(strings, " ", "T", max_replacements=1), '"', ""
        )
    if pa.types.is_date(kind):
        return pc.binary_join_element_wise('"', strings, '"', "")
    return strings


def _json_strings(strings: Any) -> Any:
    if pc.any(pc.match_substring_regex(strings, "[\\x00-\\x1f]")).as_py():
        return to_array(
            [None if s is None else json.dumps(s, ensure_ascii=False) for s in strings.to_pylist()],
            pa.string(),
        )
    escaped = pc.replace_substring(pc.replace_substring(strings, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise('"', escaped, '"', "")
