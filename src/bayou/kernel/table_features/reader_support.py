"""Whether a table can be read: its schema, and what it asks of readers."""

from __future__ import annotations

from collections.abc import Iterator

from bayou.errors import (
    CorruptSchemaError,
    SchemaError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel.catalog import is_catalog_managed
from bayou.kernel.table_features.column_mapping import column_mapping_mode, without_mapping
from bayou.protocol import features
from bayou.protocol.actions import Metadata, Protocol
from bayou.protocol.column_rules import has_usable_step
from bayou.protocol.properties import COLUMN_MAPPING_MODE
from bayou.protocol.schema import ArrayType, DataType, MapType, SchemaJsonError, StructType
from bayou.protocol.type_changes import unsupported_type_changes

__all__ = ["check_readable", "table_schema"]


def table_schema(table: str, metadata: Metadata) -> StructType:
    """The schema, with its column mapping where that is on.

    Raises:
        SchemaError: it isn't one, or the table has none yet.
        TablePropertyError: an unknown mode of column mapping.
    """
    if not metadata.schema_string:
        raise SchemaError(
            f"{table} has no schema: its metaData action has no schemaString yet.", table=table
        )
    try:
        schema = StructType.from_json(metadata.schema_string)
    except SchemaJsonError as error:
        raise CorruptSchemaError(
            f"The schema in the log of {table} can't be read: {error}.", table=table
        ) from error
    try:
        mode = column_mapping_mode(metadata.configuration)
    except ValueError as error:
        raise TablePropertyError(
            f"{table} can't be read: {error}.", table=table, key=COLUMN_MAPPING_MODE.key
        ) from error
    problem = next(_unusable_fields(schema), None)
    if problem is not None:
        raise CorruptSchemaError(
            f"The schema in the log of {table} can't be read: {problem}.", table=table
        )
    for name in metadata.partition_columns:
        field = next((field for field in schema if field.name == name), None)
        if field is None or isinstance(field.data_type, StructType | ArrayType | MapType):
            problem = "isn't in the schema" if field is None else f"is of type {field.data_type}"
            raise CorruptSchemaError(
                f"The partition columns of {table} can't be read: column {name!r} {problem}.",
                table=table,
            )
    return schema if mode != "none" else without_mapping(schema)


def _unusable_fields(data_type: DataType) -> Iterator[str]:
    """What is wrong with fields that no Arrow schema or writer could have."""
    match data_type:
        case StructType(fields):
            seen: set[str] = set()
            for field in fields:
                if field.name in seen:
                    yield f"field {field.name!r} is there twice"
                if "\0" in field.name:
                    yield f"field {field.name!r} has a null character in its name"
                if not has_usable_step(field):
                    yield f"the step of identity column {field.name!r} isn't a number"
                seen.add(field.name)
                yield from _unusable_fields(field.data_type)
        case ArrayType():
            yield from _unusable_fields(data_type.element_type)
        case MapType():
            yield from _unusable_fields(data_type.key_type)
            yield from _unusable_fields(data_type.value_type)
        case _:
            return


def check_readable(
    table: str, protocol: Protocol, metadata: Metadata, schema: StructType, *, managed: bool
) -> None:
    """Refuse a table that this version of Bayou can't read.

    Args:
        managed: a catalog says which of its commits count.

    Raises:
        UnsupportedFeatureError: names what it needs.
    """
    missing = features.unsupported_for_read(protocol, metadata.configuration, schema)
    if missing:
        names = ", ".join(missing)
        raise UnsupportedFeatureError(
            f"{table} can't be read: it needs {names}, which this version of Bayou doesn't "
            "support. Read it with a newer version, or with delta-spark.",
            table=table,
            features=missing,
        )
    named = features.reader_features(protocol)
    if features.TYPE_WIDENING in named or features.TYPE_WIDENING_PREVIEW in named:
        changes = unsupported_type_changes(schema)
        if changes:
            raise UnsupportedFeatureError(
                f"{table} can't be read: its columns changed their types in ways that this version "
                f"of Bayou doesn't know ({', '.join(changes)}). Read it with a newer version.",
                table=table,
                features=[features.TYPE_WIDENING],
            )
    if metadata.format.provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"{table} can't be read: its data files are {metadata.format.provider!r}, and only "
            "Parquet is supported.",
            table=table,
            features=[f"format {metadata.format.provider}"],
        )
    if not managed and is_catalog_managed(protocol.reader_features or ()):
        raise UnsupportedFeatureError(
            f"{table} is managed by a catalog (table feature {features.CATALOG_MANAGED}), which "
            "alone knows its latest commits: give bayou.table(path, catalog=...) or Table.for_path "
            "that catalog, or read the table by its name there.",
            table=table,
            features=[features.CATALOG_MANAGED],
        )
