"""Checks that a table can be read: that its schema and its reader features are supported."""

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
from bayou.protocol.column_metadata import has_usable_step
from bayou.protocol.properties import COLUMN_MAPPING_MODE
from bayou.protocol.schema import ArrayType, DataType, MapType, SchemaJsonError, StructType
from bayou.protocol.type_widening import unsupported_type_changes


def table_schema(table: str, metadata: Metadata) -> StructType:
    """Parse and validate the table's schema.

    Column mapping metadata is removed if column mapping is disabled.
    """
    if not metadata.schema_string:
        raise SchemaError(
            f"{table}: the table has no schema yet: its metaData action has no schemaString. Add "
            "columns first.",
            table=table,
        )
    try:
        schema = StructType.from_json(metadata.schema_string)
    except SchemaJsonError as error:
        raise CorruptSchemaError(
            f"{table}: the schema in the log is invalid: {error}. Restore the log from a backup.",
            table=table,
        ) from error
    try:
        mode = column_mapping_mode(metadata.configuration)
    except ValueError as error:
        raise TablePropertyError(
            f"{table} can't be read: {error}.", table=table, key=COLUMN_MAPPING_MODE.key
        ) from error
    problem = next(_schema_problems(schema), None)
    if problem is not None:
        raise CorruptSchemaError(
            f"{table}: the schema in the log is invalid: {problem}. Restore the log from a backup.",
            table=table,
        )
    for name in metadata.partition_columns:
        field = next((field for field in schema if field.name == name), None)
        if field is None or isinstance(field.data_type, StructType | ArrayType | MapType):
            problem = "isn't in the schema" if field is None else f"has type {field.data_type}"
            raise CorruptSchemaError(
                f"{table}: the partition columns in the log are invalid: column {name!r} "
                f"{problem}. Restore the log from a backup.",
                table=table,
            )
    return schema if mode != "none" else without_mapping(schema)


def _schema_problems(data_type: DataType) -> Iterator[str]:
    """Yield a description of each field that Arrow doesn't support or that can't be written."""
    match data_type:
        case StructType(fields):
            seen: set[str] = set()
            for field in fields:
                if field.name in seen:
                    yield f"field {field.name!r} is duplicated"
                if "\0" in field.name:
                    yield f"field {field.name!r} has a null character in its name"
                if not has_usable_step(field):
                    yield f"the step of identity column {field.name!r} isn't a number"
                seen.add(field.name)
                yield from _schema_problems(field.data_type)
        case ArrayType():
            yield from _schema_problems(data_type.element_type)
        case MapType():
            yield from _schema_problems(data_type.key_type)
            yield from _schema_problems(data_type.value_type)
        case _:
            return


def check_readable(
    table: str, protocol: Protocol, metadata: Metadata, schema: StructType, *, managed: bool
) -> None:
    """Check that this version of Bayou can read a table.

    Args:
        managed: whether the caller reads the table through its catalog. If False, a
            catalog-managed table can't be read.
    """
    missing = features.unsupported_for_read(protocol, metadata.configuration, schema)
    if missing:
        names = ", ".join(missing)
        reason = features.explanation(missing, metadata.configuration)
        raise UnsupportedFeatureError(
            f"{table} can't be read: it needs {names}, which this version of Bayou doesn't "
            f"support. {reason or 'Read it with a newer version, or with delta-spark.'}",
            table=table,
            features=missing,
        )
    enabled = features.reader_features(protocol)
    if features.TYPE_WIDENING in enabled or features.TYPE_WIDENING_PREVIEW in enabled:
        changes = unsupported_type_changes(schema)
        if changes:
            raise UnsupportedFeatureError(
                f"{table} can't be read: this version of Bayou doesn't support its column type "
                f"changes ({', '.join(changes)}). Read it with a newer version.",
                table=table,
                features=[features.TYPE_WIDENING],
            )
    if metadata.format.provider.lower() != "parquet":
        raise UnsupportedFeatureError(
            f"{table} can't be read: its data files have the format {metadata.format.provider!r}. "
            "Only Parquet is supported.",
            table=table,
            features=[f"format {metadata.format.provider}"],
        )
    if not managed and is_catalog_managed(protocol.reader_features or ()):
        raise UnsupportedFeatureError(
            f"{table} can't be read by path: a catalog manages the table (table feature "
            f"{features.CATALOG_MANAGED}) and provides the latest commits. Pass the catalog to "
            "bayou.table(path, catalog=...) or Table.for_path, or read the table by its name in "
            "the catalog.",
            table=table,
            features=[features.CATALOG_MANAGED],
        )
