"""From rows as a connector has them to rows as data files hold them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import ConstraintViolationError, SchemaError
from bayou.kernel.arrow_types import from_arrow_type, to_arrow_type
from bayou.protocol.schema import DataType, StructField, StructType

__all__ = ["conform"]

pc: Any = pyarrow.compute


def conform(table: str, schema: StructType, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with exactly the columns of `schema`, in its order and in its Arrow types.

    Names match exactly, else without regard to case, nested ones too; a missing nullable column is
    nulls. Only the representation may differ (large strings, dictionaries, units of timestamps
    that lose nothing), never the type.

    Raises:
        SchemaError: a column the table doesn't have, or of another type.
        ConstraintViolationError: a null in a column that may not be null, at any depth of structs.
    """
    struct = (
        pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
        if (batch.num_columns)
        else None
    )
    if struct is None:
        arrays = [_missing(table, f, f.name, batch.num_rows) for f in schema]
    else:
        arrays = _conform_fields(table, schema, struct, "")
    fields = [pa.field(f.name, a.type, f.nullable) for f, a in zip(schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _conform_fields(
    table: str, schema: StructType, struct: pa.StructArray, prefix: str
) -> list[pa.Array[Any]]:
    names = [f.name for f in struct.type]
    by_fold = {name.lower(): i for i, name in enumerate(names)}
    by_name = {name: i for i, name in enumerate(names)}
    used: set[int] = set()
    arrays: list[pa.Array[Any]] = []
    for field in schema:
        path = prefix + field.name
        index = by_name.get(field.name, by_fold.get(field.name.lower()))
        if index is None:
            arrays.append(_missing(table, field, path, len(struct)))
            continue
        used.add(index)
        array = _conform(table, field.data_type, struct.field(index), path)
        if not field.nullable:
            _refuse_nulls(table, array, struct, path)
        arrays.append(array)
    unknown = [name for i, name in enumerate(names) if i not in used]
    if unknown:
        raise SchemaError(
            f"{table} has no column {', '.join(repr(prefix + n) for n in unknown)}; it has "
            f"{', '.join(prefix + n for n in schema.names)}.",
            table=table,
            column=prefix + unknown[0],
        )
    return arrays


def _missing(table: str, field: StructField, path: str, length: int) -> pa.Array[Any]:
    if not field.nullable:
        raise ConstraintViolationError(
            f"Column {path!r} of {table} may not be null, and the data doesn't have it.",
            table=table,
            constraint=f"NOT NULL {path}",
        )
    arrow_type: Any = to_arrow_type(field.data_type)
    nulls: pa.Array[Any] = pa.nulls(length, arrow_type)
    return nulls


def _conform(table: str, data_type: DataType, array: pa.Array[Any], path: str) -> pa.Array[Any]:
    target = to_arrow_type(data_type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(data_type, StructType) and isinstance(array, pa.StructArray):
        children = _conform_fields(table, data_type, array, f"{path}.")
        mask = pc.is_null(array) if array.null_count else None
        return pa.StructArray.from_arrays(
            children,
            fields=[
                pa.field(f.name, c.type, f.nullable)
                for f, c in zip(data_type, children, strict=True)
            ],
            mask=mask,
        )
    if array.type == target:
        return array
    if not _same_kind(array.type, data_type):
        raise _wrong_type(table, path, data_type, array.type)
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"Column {path!r} of {table} has type {data_type}; a value doesn't fit: {error}. Cast "
            "the data first.",
            table=table,
            column=path,
        ) from error


def _same_kind(have: pa.DataType, data_type: DataType) -> bool:
    """Whether an Arrow type holds values of a Delta type, nullability of elements aside."""
    if pa.types.is_null(have):
        return True
    try:
        return str(from_arrow_type(have)) == str(data_type)
    except SchemaError:
        return False


def _refuse_nulls(table: str, array: pa.Array[Any], parent: pa.StructArray, path: str) -> None:
    if array.null_count == 0:
        return
    # Below a null struct there is nothing to be null.
    nulls = array.null_count
    if parent.null_count:
        nulls = pc.and_(pc.is_null(array), pc.is_valid(parent)).true_count
    if nulls:
        raise ConstraintViolationError(
            f"Column {path!r} of {table} may not be null; {nulls} of {len(array)} rows are. "
            "Nothing was committed.",
            table=table,
            constraint=f"NOT NULL {path}",
        )


def _wrong_type(table: str, path: str, data_type: DataType, have: pa.DataType) -> SchemaError:
    return SchemaError(
        f"Column {path!r} of {table} has type {data_type}, the data has {have}; they can't be "
        "merged (DELTA_FAILED_TO_MERGE_FIELDS). Cast the data first.",
        table=table,
        column=path,
    )
