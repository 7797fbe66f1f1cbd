"""Creation of empty tables: `create`, and `exists`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from bayou.api.argument_checks import checked_names, checked_path, checked_string, checked_strings
from bayou.api.commands.alter import ColumnName, ColumnType, new_field
from bayou.api.table import TableHandle, table
from bayou.engines import for_path
from bayou.errors import ArgumentError, SchemaError
from bayou.kernel import Catalog, Engine, Table
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.create_table import CreationMode, TableDefinition, create_table
from bayou.protocol.property_strings import column_path
from bayou.protocol.schema import StructField, StructType
from bayou.unity.names import is_unity_name
from bayou.version import ENGINE_INFO

TableSchema: TypeAlias = pa.Schema | StructType | Mapping[str, ColumnType] | Sequence[StructField]
"""The schema of a new table, in one of these forms: an Arrow schema or an object that exports one;
types by column name; a `StructType` or a list of `StructField`s of `bayou.protocol.schema`."""

_MANAGED = {"delta.feature.catalogManaged": "supported"}
_MODES = {
    "error": CreationMode.CREATE,
    "ignore": CreationMode.CREATE_IF_NOT_EXISTS,
    "overwrite": CreationMode.CREATE_OR_REPLACE,
}


def create(  # noqa: PLR0917 - the order of the parameters is part of the public API
    path: str | os.PathLike[str],
    schema: TableSchema,
    mode: Literal["error", "ignore", "overwrite"] = "error",
    partition_by: str | Sequence[str] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    cluster_by: ColumnName | Sequence[ColumnName] | None = None,
    catalog: Catalog | None = None,
    location: str | None = None,
    engine: Engine | None = None,
) -> TableHandle:
    """Create an empty table and return its handle.

    Args:
        path: see `bayou.table`.
        schema: an Arrow schema, or types by column name such as `{"id": "bigint"}`.
        mode: behavior if the table exists: `error` raises an error, `ignore` returns the existing
            table, `overwrite` replaces it by an empty table with the new definition.
        partition_by: partition columns.
        name, description: name and description in the table's metadata.
        configuration: table properties, such as `{"delta.enableDeletionVectors": "true"}`.
        storage_options: see `bayou.table`.
        cluster_by: clustering columns; they can't be combined with partition columns.
        catalog: catalog that manages the new table; see `bayou.table`.
        location: path or URI at which to create an external table of Unity Catalog. It is only
            valid if `path` is the table's name in Unity Catalog: `uc://catalog.schema.table`.
        engine: see `bayou.table`.

    Raises:
        TableAlreadyExistsError: mode is `error` and the table exists.
        SchemaError, TablePropertyError, UnsupportedFeatureError: the definition isn't valid.
        CommitConflictError: another writer changed the table concurrently.

    Examples:
        >>> bayou.create("lake/users", {"id": "bigint", "name": "string"}, cluster_by="id")
    """
    location_path = checked_path(path)
    options = checked_strings(storage_options, "storage_options")
    properties = checked_strings(configuration, "configuration")
    if mode not in _MODES:
        raise ArgumentError(
            f"mode: {mode!r} isn't a mode. Use one of {', '.join(_MODES)}.", argument="mode"
        )
    definition = TableDefinition(
        schema=_struct(schema, location_path),
        partition_columns=(partition_by,)
        if isinstance(partition_by, str)
        else checked_names(partition_by, "partition_by") or (),
        clustering_columns=_clustering(cluster_by),
        properties={**({} if catalog is None else _MANAGED), **properties},
        name=None if name is None else checked_string(name, "name"),
        description=None if description is None else checked_string(description, "description"),
    )
    if is_unity_name(location_path):
        if catalog is not None or engine is not None:
            raise ArgumentError(
                f"{location_path}: the arguments engine and catalog can't be used with a table "
                "of Unity Catalog. Remove them.",
                argument="engine" if engine is not None else "catalog",
            )
        return _create_in_unity(location_path, definition, mode, options, location)
    if location is not None:
        raise ArgumentError(
            f"location: the argument is only for tables of Unity Catalog, and {location_path!r} "
            "isn't a uc:// URI. Remove location, and pass the table's path as path.",
            argument="location",
        )
    if engine is not None and options:
        raise ArgumentError(
            "storage_options: storage_options and engine are both set. Give the options to the "
            "engine, or remove the argument engine.",
            argument="storage_options",
        )
    engine = engine or for_path(location_path, options)
    created = Table.for_path(engine, location_path, catalog)
    create_table(engine, created, definition, _MODES[mode], engine_info=ENGINE_INFO)
    return TableHandle(engine, created)


def exists(path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> bool:
    """Whether a path has a Delta table.

    Args:
        path, storage_options: see `bayou.table`.

    Examples:
        >>> bayou.exists("lake/orders")
    """
    return table(path, storage_options).exists()


def _create_in_unity(
    uri: str,
    definition: TableDefinition,
    mode: str,
    options: Mapping[str, str],
    location: str | None,
) -> TableHandle:
    from bayou.unity.tables import open_for_write

    target = open_for_write(uri, options, location, definition.properties)
    required = replace(definition, properties={**target.properties, **definition.properties})
    create_table(target.engine, target.table, required, _MODES[mode], engine_info=ENGINE_INFO)
    target.after_commit()
    return TableHandle(target.engine, target.table)


def _struct(schema: object, table_path: str) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, Mapping):
        return StructType(tuple(new_field(name, column) for name, column in schema.items()))
    if isinstance(schema, list | tuple) and all(isinstance(f, StructField) for f in schema):
        return StructType(tuple(schema))
    try:
        arrow = pa.schema(schema)  # type: ignore[arg-type]  # its error is reported
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise SchemaError(
            f"{table_path}: {schema!r} isn't a schema. Give a pyarrow.Schema, or types by column "
            "name, such as {'id': 'bigint'}.",
            table=table_path,
        ) from error
    return from_arrow_schema(arrow, table=table_path)


def _clustering(
    columns: ColumnName | Sequence[ColumnName] | None,
) -> tuple[tuple[str, ...], ...]:
    if columns is None:
        return ()
    each: Iterable[Any] = (columns,) if isinstance(columns, str) else columns
    return tuple(
        column_path(column) if isinstance(column, str) else tuple(column) for column in each
    )
