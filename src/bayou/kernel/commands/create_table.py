"""CREATE TABLE and REPLACE TABLE: define a table without rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bayou.errors import (
    ArgumentError,
    CommitConflictError,
    FileMissingError,
    SchemaError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TablePropertyError,
)
from bayou.kernel.engine import Engine
from bayou.kernel.operation import Operation
from bayou.kernel.snapshot import Snapshot
from bayou.kernel.table import Table
from bayou.kernel.table_features.column_mapping import without_mapping
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol.column_rules import (
    ALLOW_EXPLICIT_KEY,
    GENERATION_EXPRESSION_KEY,
    IDENTITY_START_KEY,
    IDENTITY_STEP_KEY,
)
from bayou.protocol.properties import normalize
from bayou.protocol.schema import StructField, StructType

__all__ = [
    "CreationMode",
    "TableDefinition",
    "check_definition",
    "create_table",
    "generated_column",
    "identity_column",
    "properties_to_remove",
]


class CreationMode(StrEnum):
    """The SQL statement that creates or replaces a table."""

    CREATE = "CREATE TABLE"
    CREATE_IF_NOT_EXISTS = "CREATE TABLE IF NOT EXISTS"
    REPLACE = "REPLACE TABLE"
    CREATE_OR_REPLACE = "CREATE OR REPLACE TABLE"

    @property
    def replaces(self) -> bool:
        """Whether the definition replaces that of an existing table."""
        return self in (CreationMode.REPLACE, CreationMode.CREATE_OR_REPLACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """Definition of a table.

    Attributes:
        schema: columns; generated, identity and default columns are defined in field metadata.
        partition_columns: column names, case-insensitive.
        clustering_columns: paths of at most four columns.
        properties: table properties, including `delta.feature.*`.
        description: table description.
        is_managed: whether a catalog chose the location; recorded in the history.
    """

    schema: StructType
    partition_columns: tuple[str, ...] = ()
    clustering_columns: tuple[tuple[str, ...], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    is_managed: bool = False


def create_table(
    engine: Engine,
    table: Table,
    definition: TableDefinition,
    mode: CreationMode,
    *,
    engine_info: str,
) -> int:
    """Create a table, or replace an existing table by an empty one, in one commit.

    A replaced table keeps its id, its history, its protocol, its column mapping and the names of
    its materialized row tracking columns; everything else comes from the definition.

    Returns:
        The table's version.

    Raises:
        TableAlreadyExistsError: the table exists, and the mode doesn't replace it.
        TableNotFoundError: the mode is `REPLACE`, and the table doesn't exist.
        ArgumentError: the folder has other files, or the definition contradicts itself.
        SchemaError, TablePropertyError, UnsupportedFeatureError: the definition is invalid.
        CommitConflictError, CommitFailedError: see `Transaction.commit`.
    """
    if definition.partition_columns and definition.clustering_columns:
        raise ArgumentError(
            f"{table.path}: partition columns and clustering columns exclude each other "
            "(DELTA_CLUSTER_BY_WITH_PARTITIONED_BY). Define one of them.",
            argument="clusterBy",
        )
    snapshot = table.latest_snapshot(engine) if table.exists(engine) else None
    if snapshot is not None and not mode.replaces:
        if mode is CreationMode.CREATE_IF_NOT_EXISTS:
            return snapshot.version
        raise _exists(table)
    if len(definition.schema) == 0:
        raise SchemaError(
            f"{table.path}: the definition has no columns (DELTA_SCHEMA_NOT_PROVIDED). Define at "
            "least one column.",
            table=table.path,
        )
    if snapshot is not None:
        return _replace(engine, snapshot, definition, mode, engine_info)
    if mode is CreationMode.REPLACE:
        raise TableNotFoundError(
            f"{table.path}: no Delta table to replace (TABLE_OR_VIEW_NOT_FOUND). Create it, or use "
            "createOrReplace.",
            table=table.path,
        )
    _check_folder(engine, table)
    return _create(engine, table, definition, mode, engine_info)


def generated_column(column: StructField, expression: str) -> StructField:
    """Return a generated column (PROTOCOL.md, Generated Columns).

    Args:
        expression: SQL expression.
    """
    return replace(column, metadata={**column.metadata, GENERATION_EXPRESSION_KEY: expression})


def identity_column(
    column: StructField, *, start: int, step: int, allow_explicit: bool
) -> StructField:
    """Return an identity column (PROTOCOL.md, Identity Columns).

    Args:
        allow_explicit: writers may provide values (GENERATED BY DEFAULT).

    Raises:
        ArgumentError: the step is 0.
    """
    if step == 0:
        raise ArgumentError(
            f"Column {column.name!r}: the step of an identity column can't be 0 "
            "(DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP). Set another step.",
            argument="step",
        )
    marks = {
        IDENTITY_START_KEY: start,
        IDENTITY_STEP_KEY: step,
        ALLOW_EXPLICIT_KEY: allow_explicit,
    }
    return replace(column, metadata={**column.metadata, **marks})


def properties_to_remove(snapshot: Snapshot, properties: Mapping[str, str]) -> list[str]:
    """Return the properties of a replaced table that its new definition doesn't have.

    Column mapping, materialized row tracking columns and in-commit timestamps are retained.
    """
    new = normalize(properties)
    return [k for k in snapshot.properties if k not in new and not k.startswith(_RETAINED_PREFIXES)]


def check_definition(snapshot: Snapshot, definition: TableDefinition) -> None:
    """Check that an existing table matches a definition.

    Only columns and properties that the definition sets are compared.

    Raises:
        SchemaError: the columns or partition columns differ.
        TablePropertyError: a property differs.
    """
    path = snapshot.path
    if len(definition.schema):
        existing, requested = without_mapping(snapshot.schema), definition.schema
        if _comparable(existing) != _comparable(requested):
            raise SchemaError(
                f"{path}: the existing table has the columns ({_format(existing)}), not "
                f"({_format(requested)}) (DELTA_CREATE_TABLE_SCHEME_MISMATCH). Use the table's "
                "columns, or another path.",
                table=path,
            )
        partitions = [name.lower() for name in definition.partition_columns]
        if partitions != [name.lower() for name in snapshot.partition_columns]:
            raise SchemaError(
                f"{path}: the existing table is partitioned by "
                f"({', '.join(snapshot.partition_columns)}), not by "
                f"({', '.join(definition.partition_columns)}) "
                "(DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING). Use the table's partition "
                "columns, or another path.",
                table=path,
            )
    for key, value in normalize(definition.properties).items():
        if snapshot.properties.get(key, value) != value:
            raise TablePropertyError(
                f"{path}: property {key} of the existing table is {snapshot.properties[key]!r}, "
                f"not {value!r} (DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY). Use the table's "
                "value, or another path.",
                table=path,
                key=key,
            )


def _create(
    engine: Engine,
    table: Table,
    definition: TableDefinition,
    mode: CreationMode,
    engine_info: str,
) -> int:
    operation = Operation.CREATE_OR_REPLACE_TABLE if mode.replaces else Operation.CREATE_TABLE
    builder = table.create_transaction_builder(engine, engine_info, operation)
    transaction = _with_definition(builder, table.path, definition).build(engine)
    if transaction.read_version < 0:
        try:
            result = transaction.commit(engine, [], operation_metrics={})
        except CommitConflictError:
            if not table.exists(engine):
                raise
        else:
            result.run_post_commit_hooks(engine)
            return result.version
    # Another writer created the table meanwhile.
    if mode is CreationMode.CREATE:
        raise _exists(table)
    return create_table(engine, table, definition, mode, engine_info=engine_info)


def _replace(
    engine: Engine,
    snapshot: Snapshot,
    definition: TableDefinition,
    mode: CreationMode,
    engine_info: str,
) -> int:
    operation = (
        Operation.REPLACE_TABLE
        if mode is CreationMode.REPLACE
        else Operation.CREATE_OR_REPLACE_TABLE
    )
    builder = (
        snapshot.build_update_table_transaction(engine_info, operation)
        .with_schema_replaced()
        .with_files_checked()
        .with_table_properties_removed(properties_to_remove(snapshot, definition.properties))
    )
    if snapshot.clustering_columns and not definition.clustering_columns:
        builder = builder.with_clustering_columns(())
    builder = _with_definition(builder, snapshot.path, definition)
    transaction = builder.with_description(definition.description or "").build(engine)
    removes = transaction.generate_remove_actions(engine)
    result = transaction.commit(engine, removes, operation_metrics={})
    result.run_post_commit_hooks(engine)
    return result.version


_RETAINED_PREFIXES = (
    "delta.columnMapping.",
    "delta.rowTracking.materialized",
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablement",
)


def _with_definition(
    builder: TransactionBuilder, path: str, definition: TableDefinition
) -> TransactionBuilder:
    columns = _partition_columns(path, definition.schema, definition.partition_columns)
    builder = (
        builder.with_schema(definition.schema)
        .with_partition_columns(columns)
        .with_table_properties(definition.properties)
        .with_description(definition.description)
        .with_operation_parameters({"isManaged": str(definition.is_managed).lower()})
        .with_definition_recorded()
    )
    if definition.clustering_columns:
        builder = builder.with_clustering_columns(definition.clustering_columns)
    return builder


def _partition_columns(path: str, schema: StructType, names: Iterable[str]) -> list[str]:
    columns = []
    for name in names:
        column = schema.get(name)
        if column is None:
            raise SchemaError(
                f"{path}: partition column {name!r} isn't in the schema. Its columns are "
                f"{', '.join(schema.names)}.",
                table=path,
                column=name,
            )
        columns.append(column.name)
    return columns


def _check_folder(engine: Engine, table: Table) -> None:
    """Check that the folder is empty; existing files would silently not be part of the table."""
    try:
        with engine.files.list_from(f"{table.path}/") as files:
            first = next(iter(files), None)
    except FileMissingError:
        return
    if first is not None:
        raise ArgumentError(
            f"{table.path}: the folder isn't empty and isn't a Delta table; it contains "
            f"{first.path} (DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION). Convert the files "
            "(convertToDelta), or choose an empty location.",
            argument="location",
        )


def _comparable(schema: StructType) -> list[tuple[str, str, bool]]:
    return [(f.name.lower(), str(f.data_type), f.nullable) for f in schema]


def _format(schema: StructType) -> str:
    return ", ".join(f"{f.name} {f.data_type}{'' if f.nullable else ' NOT NULL'}" for f in schema)


def _exists(table: Table) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(
        f"{table.path}: a Delta table already exists (TABLE_OR_VIEW_ALREADY_EXISTS). Open it with "
        "forPath, or use createIfNotExists or createOrReplace.",
        table=table.path,
    )
