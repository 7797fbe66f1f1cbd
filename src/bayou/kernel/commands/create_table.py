"""CREATE TABLE and REPLACE TABLE: a table defined, with no rows."""

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
    """What happens where there is a table, or none; the statement that says so."""

    CREATE = "CREATE TABLE"
    CREATE_IF_NOT_EXISTS = "CREATE TABLE IF NOT EXISTS"
    REPLACE = "REPLACE TABLE"
    CREATE_OR_REPLACE = "CREATE OR REPLACE TABLE"

    @property
    def replaces(self) -> bool:
        """Whether a table that is there is given the definition."""
        return self in (CreationMode.REPLACE, CreationMode.CREATE_OR_REPLACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What a table is to be.

    Attributes:
        schema: columns; generated, identity and default columns by their fields' metadata.
        partition_columns: names, case doesn't matter.
        clustering_columns: paths of at most four columns.
        properties: table properties, those that ask for features included.
        description: free text, None for none.
        is_managed: whether a catalog chose the place; for the history.
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
    """Make a table, or replace what there is by an empty one, in one commit.

    A replaced table keeps its id and history, its protocol, and what its files' names depend on
    (column mapping, the columns that row ids are materialized in); all else is the definition's.

    Returns:
        The table's version.

    Raises:
        TableAlreadyExistsError: there is a table, and it may not be replaced.
        TableNotFoundError: there is none to be replaced.
        ArgumentError: the folder has files that aren't a table's, or the definition contradicts
            itself.
        SchemaError, TablePropertyError, UnsupportedFeatureError: the table can't be so.
        CommitConflictError, CommitFailedError: see `Transaction.commit`.
    """
    if definition.partition_columns and definition.clustering_columns:
        raise ArgumentError(
            f"{table.path} can't be partitioned and clustered: choose one "
            "(DELTA_CLUSTER_BY_WITH_PARTITIONED_BY).",
            argument="clusterBy",
        )
    snapshot = table.latest_snapshot(engine) if table.exists(engine) else None
    if snapshot is not None and not mode.replaces:
        if mode is CreationMode.CREATE_IF_NOT_EXISTS:
            return snapshot.version
        raise _exists(table)
    if len(definition.schema) == 0:
        raise SchemaError(
            f"A table needs columns; {table.path} is to have none (DELTA_SCHEMA_NOT_PROVIDED).",
            table=table.path,
        )
    if snapshot is not None:
        return _replaced(engine, snapshot, definition, mode, engine_info)
    if mode is CreationMode.REPLACE:
        raise TableNotFoundError(
            f"There is no Delta table at {table.path} that could be replaced "
            "(TABLE_OR_VIEW_NOT_FOUND). Create it, or use createOrReplace.",
            table=table.path,
        )
    _check_folder(engine, table)
    return _created(engine, table, definition, mode, engine_info)


def generated_column(column: StructField, expression: str) -> StructField:
    """A column whose values are made of others (PROTOCOL.md, Generated Columns).

    Args:
        expression: SQL text.
    """
    return replace(column, metadata={**column.metadata, GENERATION_EXPRESSION_KEY: expression})


def identity_column(
    column: StructField, *, start: int, step: int, allow_explicit: bool
) -> StructField:
    """A column whose values are given out one by one (PROTOCOL.md, Identity Columns).

    Args:
        allow_explicit: rows may bring values of their own (GENERATED BY DEFAULT).

    Raises:
        ArgumentError: a step of 0.
    """
    if step == 0:
        raise ArgumentError(
            f"Column {column.name!r}: identity generation requires step to be non-zero "
            "(DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP).",
            argument="step",
        )
    marks = {
        IDENTITY_START_KEY: start,
        IDENTITY_STEP_KEY: step,
        ALLOW_EXPLICIT_KEY: allow_explicit,
    }
    return replace(column, metadata={**column.metadata, **marks})


def properties_to_remove(snapshot: Snapshot, properties: Mapping[str, str]) -> list[str]:
    """Those of a table that is replaced which the new definition doesn't have.

    What the files' names depend on, and in-commit timestamps, stay.
    """
    new = normalize(properties)
    return [k for k in snapshot.properties if k not in new and not k.startswith(_KEPT)]


def check_definition(snapshot: Snapshot, definition: TableDefinition) -> None:
    """Check that a table that is there is what somebody is about to create.

    What the definition doesn't say isn't compared.

    Raises:
        SchemaError: other columns or partition columns.
        TablePropertyError: other properties.
    """
    path = snapshot.path
    if len(definition.schema):
        there, wanted = without_mapping(snapshot.schema), definition.schema
        if _plain(there) != _plain(wanted):
            raise SchemaError(
                f"There is a table at {path} whose columns are others: it has ({_shown(there)}), "
                f"not ({_shown(wanted)}) (DELTA_CREATE_TABLE_SCHEME_MISMATCH).",
                table=path,
            )
        partitions = [name.lower() for name in definition.partition_columns]
        if partitions != [name.lower() for name in snapshot.partition_columns]:
            raise SchemaError(
                f"There is a table at {path} that is partitioned by "
                f"({', '.join(snapshot.partition_columns)}), not by "
                f"({', '.join(definition.partition_columns)}) "
                "(DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING).",
                table=path,
            )
    for key, value in normalize(definition.properties).items():
        if snapshot.properties.get(key, value) != value:
            raise TablePropertyError(
                f"There is a table at {path} whose property {key} is "
                f"{snapshot.properties[key]!r}, not {value!r} "
                "(DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY).",
                table=path,
                key=key,
            )


def _created(
    engine: Engine,
    table: Table,
    definition: TableDefinition,
    mode: CreationMode,
    engine_info: str,
) -> int:
    operation = Operation.CREATE_OR_REPLACE_TABLE if mode.replaces else Operation.CREATE_TABLE
    builder = table.create_transaction_builder(engine, engine_info, operation)
    transaction = _defined(builder, table.path, definition).build(engine)
    if transaction.read_version < 0:
        try:
            result = transaction.commit(engine, [], operation_metrics={})
        except CommitConflictError:
            if not table.exists(engine):
                raise
        else:
            result.run_post_commit_hooks(engine)
            return result.version
    # Another writer made it meanwhile.
    if mode is CreationMode.CREATE:
        raise _exists(table)
    return create_table(engine, table, definition, mode, engine_info=engine_info)


def _replaced(
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
    builder = _defined(builder, snapshot.path, definition)
    transaction = builder.with_description(definition.description or "").build(engine)
    removes = transaction.generate_remove_actions(engine)
    result = transaction.commit(engine, removes, operation_metrics={})
    result.run_post_commit_hooks(engine)
    return result.version


_KEPT = (
    "delta.columnMapping.",
    "delta.rowTracking.materialized",
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablement",
)


def _defined(
    builder: TransactionBuilder, path: str, definition: TableDefinition
) -> TransactionBuilder:
    columns = _in_schema(path, definition.schema, definition.partition_columns)
    builder = (
        builder.with_schema(definition.schema)
        .with_partition_columns(columns)
        .with_table_properties(definition.properties)
        .with_description(definition.description)
        .with_operation_parameters({"isManaged": str(definition.is_managed).lower()})
        .with_definition_told()
    )
    if definition.clustering_columns:
        builder = builder.with_clustering_columns(definition.clustering_columns)
    return builder


def _in_schema(path: str, schema: StructType, names: Iterable[str]) -> list[str]:
    found = []
    for name in names:
        column = schema.get(name)
        if column is None:
            raise SchemaError(
                f"{path} can't be partitioned by {name!r}: there is no such column among "
                f"{', '.join(schema.names)}.",
                table=path,
                column=name,
            )
        found.append(column.name)
    return found


def _check_folder(engine: Engine, table: Table) -> None:
    """Refuse to make a table around files that would silently be no part of it."""
    try:
        with engine.files.list_from(f"{table.path}/") as files:
            first = next(iter(files), None)
    except FileMissingError:
        return
    if first is not None:
        raise ArgumentError(
            f"{table.path} has files that are no Delta table's ({first.path}). Convert them "
            "(convertToDelta), or choose an empty place "
            "(DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION).",
            argument="location",
        )


def _plain(schema: StructType) -> list[tuple[str, str, bool]]:
    return [(f.name.lower(), str(f.data_type), f.nullable) for f in schema]


def _shown(schema: StructType) -> str:
    return ", ".join(f"{f.name} {f.data_type}{'' if f.nullable else ' NOT NULL'}" for f in schema)


def _exists(table: Table) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(
        f"There is a Delta table at {table.path} already (TABLE_OR_VIEW_ALREADY_EXISTS). Open it "
        "with forPath, or use createIfNotExists or createOrReplace.",
        table=table.path,
    )
