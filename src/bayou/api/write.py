"""The short API's writes: `write`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from bayou.api.argument_checks import checked_names, checked_path, checked_strings
from bayou.api.arrow_stream import ArrowStream, record_batches
from bayou.engines import for_path
from bayou.errors import (
    ArgumentError,
    MetadataChangedError,
    ProtocolChangedError,
    SchemaError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from bayou.kernel import (
    Catalog,
    Engine,
    Operation,
    Snapshot,
    Table,
    Transaction,
    TransactionBuilder,
    delete_data_files,
    write_data,
)
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.optimize.auto_compaction import compact_after
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.actions import AddFile
from bayou.protocol.schema import StructType
from bayou.unity.names import is_unity_name
from bayou.version import ENGINE_INFO

WriteMode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]
_MANAGED = {"delta.feature.catalogManaged": "supported"}
_MODES = ("append", "overwrite", "error", "ignore")


def write(  # noqa: PLR0917 - the order of the parameters is part of the public API
    path: str | os.PathLike[str],
    data: ArrowStream,
    mode: WriteMode = "append",
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    merge_schema: bool = False,
    catalog: Catalog | None = None,
    location: str | None = None,
) -> int:
    """Write rows to a table in one commit. A missing table is created.

    Args:
        path: see `bayou.table`.
        data: any object with `__arrow_c_stream__`; streamed once.
        mode: `append`; `overwrite` (replaces all rows, keeps schema and partitioning); `error`
            fails if the table exists; `ignore` does nothing if the table exists.
        partition_by: partition columns of a new table. For an existing table, they must be equal to
            the table's partition columns.
        properties: table properties, such as `{"delta.checkpointInterval": "20"}`.
        storage_options: see `bayou.table`.
        merge_schema: whether to add columns that the table lacks.
        catalog: catalog that manages the table, or will manage the new table; see `bayou.table`.
        location: for `uc://catalog.schema.table`, path or URI of a new external table. Without it,
            a missing table is created as a managed table.

    Returns:
        The table's version after the write. Appending no rows to an existing table commits nothing.

    Raises:
        SchemaError: the rows don't match the table's schema, or the schema of a new table is
            invalid.
        TableAlreadyExistsError: mode is `error` and the table exists.
        ConstraintViolationError: a NOT NULL column has nulls, or a row violates a constraint.
        CommitConflictError: a concurrent commit conflicts with this one.
        CatalogError: Unity Catalog can't be reached, or refuses a request. If it refuses the entry
            of an external table after the commit, the message says so.
    """
    if mode not in _MODES:
        raise ArgumentError(
            f"mode: {mode!r} isn't a write mode. Use one of {', '.join(_MODES)}.", argument="mode"
        )
    name = checked_path(path)
    columns = checked_names(partition_by, "partition_by")
    table_properties = checked_strings(properties, "properties")
    options = checked_strings(storage_options, "storage_options")
    if not is_unity_name(name):
        if location is not None:
            raise ArgumentError(
                f"location: {name} isn't a name of Unity Catalog. Give the location as the path.",
                argument="location",
            )
        engine = for_path(name, options)
        stream = record_batches(data, "data")
        table = Table.for_path(engine, name, catalog)
        return _write(engine, table, stream, mode, columns, table_properties, merge_schema)
    if catalog is not None:
        raise ArgumentError(
            f"{name}: a table of Unity Catalog has its own catalog. Leave out catalog.",
            argument="catalog",
        )
    from bayou.unity.tables import open_for_write

    stream = record_batches(data, "data")
    target = open_for_write(name, options, location, table_properties)
    table_properties = {**target.properties, **table_properties}
    version = _write(
        target.engine, target.table, stream, mode, columns, table_properties, merge_schema
    )
    target.after_commit()
    return version


def _write(  # noqa: PLR0917 - the checked arguments of `write`
    engine: Engine,
    table: Table,
    stream: pa.RecordBatchReader,
    mode: WriteMode,
    columns: tuple[str, ...] | None,
    table_properties: Mapping[str, str],
    merge_schema: bool,
) -> int:
    snapshot = _snapshot(engine, table)
    request = _Request(
        table=table,
        # A column of type null is only allowed if an existing table defines its type.
        schema=from_arrow_schema(stream.schema, table=table.path, void=snapshot is not None),
        mode=mode,
        partition_by=columns,
        properties=table_properties,
        merge_schema=merge_schema,
    )
    if snapshot is not None and mode == "ignore":
        return snapshot.version
    if snapshot is not None and mode == "error":
        raise _table_exists_error(table)
    # From here on, another writer may create the table at any time.
    transaction = request.builder(engine, snapshot).build(engine)
    if transaction.read_version >= 0:
        if mode == "ignore":
            return transaction.read_version
        if mode == "error":
            raise _table_exists_error(table)
    adds = write_data(engine, transaction.transaction_state(engine), stream)
    if not adds and mode == "append" and not transaction.changes_metadata:
        return transaction.read_version
    creates = transaction.read_version < 0
    try:
        with discard_unless_committed(lambda: delete_data_files(engine, table.path, adds)):
            try:
                return _commit(engine, transaction, adds, mode)
            except (ProtocolChangedError, MetadataChangedError):
                if creates and mode == "append":
                    return _append_after_lost_creation(engine, request, transaction, adds)
                raise
    except (ProtocolChangedError, MetadataChangedError) as error:
        if creates and mode == "ignore":
            return table.latest_snapshot(engine).version
        if creates and mode == "error":
            raise _table_exists_error(table) from error
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    table: Table
    schema: StructType
    mode: WriteMode
    partition_by: tuple[str, ...] | None
    properties: Mapping[str, str]
    merge_schema: bool

    def builder(self, engine: Engine, snapshot: Snapshot | None) -> TransactionBuilder:
        """Return the builder of the transaction, which creates the table if `snapshot` is None."""
        if snapshot is None:
            columns = list(self.partition_by or ())
            builder = self.table.create_transaction_builder(
                engine, ENGINE_INFO, Operation.WRITE
            ).with_partition_columns(columns)
            if self.table.catalog is not None:
                builder = builder.with_table_properties(_MANAGED)
        else:
            columns = list(snapshot.partition_columns)
            if self.partition_by is not None and list(self.partition_by) != columns:
                raise _partitioning_error(snapshot, self.partition_by)
            builder = snapshot.build_update_table_transaction(ENGINE_INFO, Operation.WRITE)
        mode = "ErrorIfExists" if self.mode == "error" else self.mode.capitalize()
        return (
            builder.with_schema(self.schema)
            .with_schema_evolution(self.merge_schema)
            .with_table_properties(self.properties)
            .with_operation_parameters({"mode": mode, "partitionBy": columns})
        )


def _append_after_lost_creation(
    engine: Engine, request: _Request, lost: Transaction, adds: Sequence[AddFile]
) -> int:
    """Append files to a table that another writer created concurrently; return the version.

    Args:
        lost: the failed transaction, which would have created the table.
        adds: the files, written for the transaction `lost`.
    """
    snapshot = request.table.latest_snapshot(engine)
    if snapshot.partition_columns != lost.partition_columns:
        raise _partitioning_error(snapshot, lost.partition_columns)
    transaction = request.builder(engine, snapshot).build(engine)
    if not transaction.transaction_state(engine).allows_files_of(lost.transaction_state(engine)):
        raise SchemaError(
            f"{snapshot.path}: another writer created the table concurrently, with another schema "
            "or with constraints. Repeat the write; nothing was committed.",
            table=snapshot.path,
        )
    return _commit(engine, transaction, adds, request.mode)


def _commit(
    engine: Engine, transaction: Transaction, adds: Sequence[AddFile], mode: WriteMode
) -> int:
    actions: Iterable[Any] = adds
    if mode == "overwrite":
        actions = [*transaction.generate_remove_actions(engine), *adds]
    result = transaction.commit(engine, actions)
    result.run_post_commit_hooks(engine)
    compact_after(engine, transaction, result)
    return result.version


def _partitioning_error(snapshot: Snapshot, partition_by: Sequence[str] | None) -> SchemaError:
    return SchemaError(
        f"{snapshot.path}: the table is partitioned by ({', '.join(snapshot.partition_columns)}), "
        f"not by ({', '.join(partition_by or ())}). Leave partition_by out.",
        table=snapshot.path,
    )


def _table_exists_error(table: Table) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(
        f"{table.path}: a Delta table exists at this path already. Use mode 'append' or "
        "'overwrite', or another path.",
        table=table.path,
    )


def _snapshot(engine: Engine, table: Table) -> Snapshot | None:
    try:
        return table.latest_snapshot(engine)
    except TableNotFoundError:
        return None
