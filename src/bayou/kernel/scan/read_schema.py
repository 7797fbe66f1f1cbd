"""The columns that a scan gives: a subset of the table's, nested fields too."""

from __future__ import annotations

from dataclasses import replace

from bayou.errors import SchemaError
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

__all__ = ["select_columns"]


def select_columns(table: str, schema: StructType, wanted: StructType) -> StructType:
    """The table's columns that `wanted` names, with the table's metadata.

    Names are those of the table exactly; order and subsets, of structs anywhere too, are those of
    `wanted`. A column that is never null may be read as one that may be.

    Raises:
        SchemaError: an unknown column or nested field, one named twice, or another type.
    """
    return _struct(table, schema, wanted, "")


def _struct(table: str, known: StructType, wanted: StructType, prefix: str) -> StructType:
    by_name = {f.name: f for f in known}
    fields: list[StructField] = []
    for field in wanted:
        name = prefix + field.name
        found = by_name.pop(field.name, None)
        if found is None:
            raise _unknown(table, known, field.name, prefix)
        if found.nullable and not field.nullable:
            raise SchemaError(
                f"Column {name!r} of {table} may be null; it can't be read as NOT NULL.",
                table=table,
                column=name,
            )
        data_type = _data_type(table, found.data_type, field.data_type, name)
        fields.append(replace(found, data_type=data_type, nullable=field.nullable))
    return StructType(tuple(fields))


def _data_type(table: str, known: DataType, wanted: DataType, name: str) -> DataType:
    match known, wanted:
        case StructType(), StructType():
            return _struct(table, known, wanted, f"{name}.")
        case ArrayType(), ArrayType() if wanted.contains_null or not known.contains_null:
            element = _data_type(table, known.element_type, wanted.element_type, f"{name}.element")
            return replace(wanted, element_type=element)
        case MapType(), MapType() if wanted.value_contains_null or not known.value_contains_null:
            return replace(
                wanted,
                key_type=_data_type(table, known.key_type, wanted.key_type, f"{name}.key"),
                value_type=_data_type(table, known.value_type, wanted.value_type, f"{name}.value"),
            )
        case _ if known == wanted:
            return known
        case _:
            raise SchemaError(
                f"Column {name!r} of {table} has type {known}; it can't be read as {wanted}.",
                table=table,
                column=name,
            )


def _unknown(table: str, known: StructType, name: str, prefix: str) -> SchemaError:
    if name in known.names:
        return SchemaError(
            f"Column {prefix + name!r} of {table} is asked for twice.",
            table=table,
            column=prefix + name,
        )
    where = f"Column {prefix[:-1]!r} of {table}" if prefix else table
    what = "field" if prefix else "column"
    shown = ", ".join(known.names[:50]) + (", ..." if len(known) > 50 else "")
    return SchemaError(
        f"{where} has no {what} {name!r}; it has {shown or 'none'}.",
        table=table,
        column=prefix + name,
    )
