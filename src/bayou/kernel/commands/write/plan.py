"""Planning of a write: the state for its tasks, and the version that the commit is based on.

The plan, the tasks and the commit may run in different processes, so they can't share a transaction
object. The commit creates the transaction again, based on the read version in `WritePlan`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bayou.errors import (
    ArgumentError,
    ProtocolChangedError,
    SchemaError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from bayou.kernel.catalog import Catalog
from bayou.kernel.commands.create_table import properties_to_remove
from bayou.kernel.commands.write.overwrite import writes_change_data
from bayou.kernel.commands.write.request import TableWrite, WriteMode
from bayou.kernel.engine import Engine
from bayou.kernel.snapshot import Snapshot
from bayou.kernel.table import Table
from bayou.kernel.table_features.writer_support import normalize_properties
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.transaction import Transaction
from bayou.protocol.actions import Metadata
from bayou.protocol.schema import VOID, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """A planned write; can be pickled.

    Attributes:
        table: the table's resolved path.
        read_version: the version that the write is based on; None if the table doesn't exist yet.
        table_id: `metaData.id` of the read version; None if the table doesn't exist yet.
        state: the `TransactionState` for tasks, as bytes.
        partition_columns: the table's partition columns after the commit.
        properties: the table's properties after the commit.
        generates_identity: whether tasks generate values of identity columns.
        metadata: the metadata that the commit writes; None if it doesn't change the metadata. The
            files of the tasks have the physical column names of this metadata.
        changes_metadata: whether the write changes metadata. If True, the write is committed even
            if there are no rows.
        is_noop: whether nothing is written or committed. This is the case if the table already
            contains this write, or if the table exists and the mode is `IGNORE`.
    """

    table: str
    read_version: int | None
    table_id: str | None
    state: bytes = field(repr=False)
    partition_columns: tuple[str, ...]
    properties: dict[str, str]
    generates_identity: bool
    metadata: Metadata | None = field(repr=False)
    changes_metadata: bool
    is_noop: bool


def plan_write(
    engine: Engine,
    write: TableWrite,
    *,
    base_version: int | None = None,
    catalog: Catalog | None = None,
    latest: Snapshot | None = None,
) -> WritePlan:
    """Plan a write.

    Args:
        base_version: the version from which the rows of an overwrite were computed. The commit
            conflicts with data that is added after this version. If None, this is the latest
            version.
        catalog: the catalog that manages the table; None if no catalog does.
        latest: snapshot of the latest version; None to load it.
    """
    table = Table.for_path(engine, write.table, catalog)
    if latest is None:
        latest = latest_or_none(engine, table)
    if latest is not None and write.mode is WriteMode.ERROR:
        raise exists_already(table.path)
    snapshot = latest
    if latest is not None and base_version is not None and base_version < latest.version:
        snapshot = table.snapshot_as_of_version(engine, base_version)
    normalize_properties(table.path, write.properties)  # validates them for existing tables, too
    try:
        transaction = build_transaction(engine, table, snapshot, write)
    except ProtocolChangedError:
        if snapshot is not None:
            raise
        # Another writer has created the table.
        return plan_write(engine, write, base_version=base_version, catalog=catalog)
    state = transaction.transaction_state(engine)
    write.replaces_partitions(state.partition_columns)  # checks that the options can be combined
    if snapshot is not None and write.overwrites:
        transaction.check_rows_may_be_removed()
        if write.replace_where is not None:
            recorded = writes_change_data(engine, transaction, snapshot, write)
            state = replace(state, records_inserts=recorded)
    return WritePlan(
        table=table.path,
        read_version=None if snapshot is None else snapshot.version,
        table_id=None if snapshot is None else snapshot.table_id,
        state=state.to_bytes(),
        partition_columns=state.partition_columns,
        properties=dict(state.configuration),
        generates_identity=bool(state.generated_identity),
        metadata=transaction.metadata,
        changes_metadata=transaction.changes_metadata,
        is_noop=latest is not None
        and (write.mode is WriteMode.IGNORE or is_recorded(latest, write)),
    )


def latest_or_none(engine: Engine, table: Table) -> Snapshot | None:
    """Load the latest version; None if the table doesn't exist."""
    try:
        return table.latest_snapshot(engine)
    except TableNotFoundError:
        return None


def is_recorded(snapshot: Snapshot, write: TableWrite) -> bool:
    """Whether the table already contains this idempotent write."""
    if write.application is None:
        return False
    committed = snapshot.transaction_version(write.application[0])
    return committed is not None and committed >= write.application[1]


def exists_already(path: str) -> TableAlreadyExistsError:
    """Return the error that a write with mode `ERROR` raises for an existing table."""
    return TableAlreadyExistsError(
        f"{path}: a Delta table already exists (DELTA_PATH_EXISTS). Use mode 'append' or "
        "'overwrite', or another path.",
        table=path,
    )


def build_transaction(
    engine: Engine,
    table: Table,
    snapshot: Snapshot | None,
    write: TableWrite,
    metadata: Metadata | None = None,
) -> Transaction:
    """Build the transaction of a write.

    Args:
        snapshot: version that the transaction is based on. If None, the table is created.
        metadata: the planned metadata of the table; None during planning, or if the write doesn't
            change the metadata.
    """
    if snapshot is None:
        builder = _create_builder(engine, table, write)
    else:
        builder = _update_builder(snapshot, write, planned=metadata is not None)
    if metadata is not None:
        builder = builder.with_metadata(metadata)
    if write.application is not None:
        builder = builder.with_transaction_id(*write.application)
    return (
        builder.with_user_metadata(write.user_metadata)
        .with_max_records_per_file(write.max_records_per_file)
        .with_compression(write.compression)
        .with_target_file_size(write.target_file_size)
        .with_operation_parameters(write.operation_parameters())
        .build(engine)
    )


def _create_builder(engine: Engine, table: Table, write: TableWrite) -> TransactionBuilder:
    if not write.data_change:
        raise ArgumentError(
            f"{table.path}: the table doesn't exist, and a write with dataChange=false can't "
            "create it. Remove dataChange=false.",
            argument="dataChange",
        )
    builder = (
        table.create_transaction_builder(engine, write.engine_info, write.operation)
        .with_table_created()
        .with_schema(write.schema)
        .with_partition_columns(in_schema(table.path, write.schema, write.partition_by or ()))
        .with_table_properties(write.properties)
    )
    if write.cluster_by:
        builder = builder.with_clustering_columns(write.cluster_by)
    builder = builder.with_name(write.name).with_description(write.description)
    if write.replaces_definition:
        builder = builder.with_definition_recorded()
    return builder


def _update_builder(snapshot: Snapshot, write: TableWrite, *, planned: bool) -> TransactionBuilder:
    builder = snapshot.build_update_table_transaction(write.engine_info, write.operation)
    if write.replaces_schema and planned:
        builder = builder.with_schema(write.schema)
    elif write.replaces_schema:
        columns = in_schema(snapshot.path, write.schema, write.partition_by or ())
        builder = builder.with_schema_replaced().with_schema(write.schema)
        builder = builder.with_partition_columns(columns)
    else:
        _check_partitioning(snapshot, write)
        builder = builder.with_schema(_without_untyped(write.schema, snapshot.schema))
        builder = builder.with_schema_evolution(
            write.merge_schema, automatic_widening=write.automatic_widening
        )
    if write.overwrites and write.replace_where is not None and write.checks_new_rows:
        builder = builder.with_row_condition(write.replace_where)
    if write.overwrites and write.cluster_by:
        builder = builder.with_clustering_columns(write.cluster_by)
    if write.replaces_definition:
        builder = _with_new_definition(builder, snapshot, write)
    elif write.updates_metadata:
        builder = (
            builder.with_table_properties(write.properties)
            .with_name(write.name)
            .with_description(write.description)
        )
    return builder.with_data_change(write.data_change)


def _with_new_definition(
    builder: TransactionBuilder, snapshot: Snapshot, write: TableWrite
) -> TransactionBuilder:
    if snapshot.clustering_columns and not write.cluster_by:
        builder = builder.with_clustering_columns(())
    return (
        builder.with_files_checked()
        .with_table_properties_removed(properties_to_remove(snapshot, write.properties))
        .with_table_properties(write.properties)
        .with_description(write.description or "")
        .with_definition_recorded()
    )


def in_schema(table: str, schema: StructType, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return partition columns, spelled as in the schema; `names` are case-insensitive."""
    by_name = {f.name.lower(): f.name for f in schema}
    missing = [name for name in names if name.lower() not in by_name]
    if missing:
        raise SchemaError(
            f"{table}: partition column {missing[0]!r} isn't in the schema "
            f"(DELTA_PARTITION_COLUMN_NOT_FOUND). The columns are {', '.join(schema.names)}.",
            table=table,
            column=missing[0],
        )
    return tuple(by_name[name.lower()] for name in names)


def _check_partitioning(snapshot: Snapshot, write: TableWrite) -> None:
    requested = [name.lower() for name in write.partition_by or ()]
    if requested and requested != [name.lower() for name in snapshot.partition_columns]:
        raise SchemaError(
            f"{snapshot.path} is partitioned by ({', '.join(snapshot.partition_columns)}), not by "
            f"({', '.join(write.partition_by or ())}) (DELTA_METADATA_MISMATCH). Remove "
            "partitionBy to keep the partitioning, or overwrite the table with "
            "overwriteSchema=true.",
            table=snapshot.path,
        )


def _without_untyped(data: StructType, table_schema: StructType) -> StructType:
    """Replace the type of void columns in the schema `data` by the type of the table's column.

    A column of Arrow data is void if all its values are null and no type was declared.
    """
    by_name = {f.name.lower(): f for f in table_schema}
    return StructType(
        tuple(
            column.with_data_type(by_name[column.name.lower()].data_type)
            if column.data_type == VOID and column.name.lower() in by_name
            else column
            for column in data
        )
    )
