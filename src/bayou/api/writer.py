"""Writes of rows: `write`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from bayou.api.argument_checks import (
    BoundTable,
    CommitMetadata,
    checked_commit_metadata,
    checked_names,
    checked_number,
    checked_path,
    checked_string,
    checked_strings,
    checked_version,
    engine_and_table,
)
from bayou.api.rows.arrow_stream import RowSource, record_batches
from bayou.api.rows.lossless_casts import cast_batches, fitting_schema
from bayou.engines import for_path
from bayou.errors import ArgumentError, SchemaError
from bayou.kernel import Catalog, Engine, Snapshot, Table, delete_data_files
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.write import TableWrite, WriteMode, commit_write, plan_write
from bayou.kernel.commands.write.plan import latest_or_none
from bayou.kernel.data_writer.task_writer import write_task_data
from bayou.kernel.transaction.commit import discard_unless_committed, discard_unneeded
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.properties import TYPE_WIDENING
from bayou.protocol.schema import StructType
from bayou.unity.names import is_unity_name
from bayou.version import ENGINE_INFO

if TYPE_CHECKING:
    from bayou.api.table import TableHandle

Mode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]
PartitionOverwrite: TypeAlias = Literal["static", "dynamic"]
Compression: TypeAlias = Literal["zstd", "snappy", "gzip", "brotli", "lz4_raw", "none"]

_MANAGED = {"delta.feature.catalogManaged": "supported"}
_MODES = {
    "append": WriteMode.APPEND,
    "overwrite": WriteMode.OVERWRITE,
    "error": WriteMode.ERROR,
    "ignore": WriteMode.IGNORE,
}
_CODECS = ("zstd", "snappy", "gzip", "brotli", "lz4_raw", "none")


def write(  # noqa: PLR0917 - the order of the parameters is part of the public API
    path: str | os.PathLike[str] | TableHandle,
    data: RowSource,
    mode: Mode = "append",
    partition_by: str | Sequence[str] | None = None,
    configuration: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    replace_where: str | None = None,
    partition_overwrite: PartitionOverwrite = "static",
    schema_mode: Literal["merge", "overwrite"] | None = None,
    predicate: str | None = None,
    commit_metadata: CommitMetadata | None = None,
    transaction: tuple[str, int] | None = None,
    target_file_size: int | None = None,
    compression: Compression | None = None,
    name: str | None = None,
    description: str | None = None,
    catalog: Catalog | None = None,
    location: str | None = None,
) -> int:
    """Write rows to a table in one commit. A missing table is created.

    Columns are matched by name. Values are cast to the table's types if the cast changes no value.
    Examples: `int32` to `long`, one Arrow string type to another, a dictionary to its values, and
    one timestamp unit to another. Other casts raise an error.

    Args:
        path: path of a table, see `bayou.table`; or the handle of a table, which has its own
            storage options and catalog.
        data: an object with the method `__arrow_c_stream__`, or a list or iterator of record
            batches with one schema. The data is read once.
        mode: what happens if the table exists. `append` adds the rows. `overwrite` replaces all
            rows, and keeps the schema and partitioning. `error` raises an error. `ignore` does
            nothing.
        partition_by: partition columns of a new table, or of a table that `overwrite_schema`
            replaces. In all other cases, they must be equal to the table's partition columns.
        configuration: table properties to set, such as `{"delta.checkpointInterval": "20"}`. They
            are also set if the table exists.
        storage_options: see `bayou.table`.
        merge_schema: whether to add columns that the table lacks.
        overwrite_schema: whether an overwrite also replaces the schema and the partition columns.
        replace_where: an SQL condition. An overwrite replaces only the rows that satisfy the
            condition, and all new rows must satisfy it.
        partition_overwrite: rows that an overwrite replaces. `static`: all rows, or the rows that
            satisfy `replace_where`. `dynamic`: the rows of partitions for which there are new rows.
        schema_mode: `merge` sets `merge_schema`, and `overwrite` sets `overwrite_schema`;
            `deltalake` uses this name.
        predicate: the same as `replace_where`; `deltalake` uses this name.
        commit_metadata: entries to add to the commit's `commitInfo`: a string (`userMetadata`, as
            in Spark), or a dictionary of JSON values. `history` returns these entries.
        transaction: an application id and a version, which make the write idempotent. Nothing is
            written if the table already contains this or a later version for this application id.
        target_file_size: approximate size of data files in bytes; None for the table property
            `delta.targetFileSize` (default: 128 MB).
        compression: Parquet codec of the data files; None for the codec in the table properties.
        name, description: name and description to set in the table's metadata. They are also set if
            the table exists.
        catalog: catalog that manages the existing or new table; see `bayou.table`.
        location: path or URI at which to create an external table of Unity Catalog. It is only
            valid if `path` is the table's name in Unity Catalog: `uc://catalog.schema.table`.
            Without `location`, a table that doesn't exist in Unity Catalog is created as a managed
            table.

    Returns:
        The table's version after the write. Appending no rows to an existing table commits nothing.

    Raises:
        ArgumentError: an argument is invalid, or a string in `data` isn't valid UTF-8.
        SchemaError: the rows don't match the table's schema, or the schema of a new table is
            invalid.
        TableAlreadyExistsError: mode is `error` and the table exists.
        ConstraintViolationError: a NOT NULL column has nulls, a row violates a constraint, or a row
            doesn't satisfy `replace_where`.
        CommitConflictError: a concurrent commit conflicts with this one.
        CatalogError: Unity Catalog can't be reached, or rejects a request. Bayou commits the rows
            of an external table before it updates the catalog entry. If the update fails, the
            message says that the rows are committed.

    Examples:
        >>> rows = pa.table({"id": [1, 2], "day": ["2024-01-05", "2024-01-06"]})
        >>> bayou.write("lake/visits", rows, partition_by="day")
        >>> bayou.write("lake/visits", rows, mode="overwrite", replace_where="id < 10")
    """
    options = checked_strings(storage_options, "storage_options")
    if schema_mode is not None:
        _checked_choice(schema_mode, "schema_mode", ("merge", "overwrite"), "a schema mode")
        _check_one_spelling(
            "schema_mode", merge_schema=merge_schema, overwrite_schema=overwrite_schema
        )
        merge_schema, overwrite_schema = schema_mode == "merge", schema_mode == "overwrite"
    condition_argument = "replace_where" if predicate is None else "predicate"
    if predicate is not None:
        _check_one_spelling("predicate", replace_where=replace_where is not None)
        replace_where = predicate
    request = _Request(
        path=path.table_uri if isinstance(path, BoundTable) else checked_path(path),
        mode=_checked_choice(mode, "mode", _MODES, "a write mode"),
        partition_by=_checked_columns(partition_by),
        configuration=checked_strings(configuration, "configuration"),
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        replace_where=_optional_string(replace_where, condition_argument),
        dynamic=_checked_choice(
            partition_overwrite, "partition_overwrite", ("static", "dynamic"), "a kind of overwrite"
        )
        == "dynamic",
        commit_metadata=checked_commit_metadata(commit_metadata),
        transaction=_checked_transaction(transaction),
        target_file_size=checked_number(
            target_file_size, "target_file_size", "a number of bytes", minimum=1
        ),
        compression=None
        if compression is None
        else _checked_choice(compression, "compression", _CODECS, "a Parquet codec"),
        name=_optional_string(name, "name"),
        description=_optional_string(description, "description"),
    )
    request.check(
        {
            "overwrite_schema": "overwrite_schema" if schema_mode is None else "schema_mode",
            "replace_where": condition_argument,
        }
    )
    if isinstance(path, BoundTable):
        own = {"storage_options": bool(options), "catalog": catalog, "location": location}
        _check_handle_only(request.path, own)
        stream = record_batches(data, "data")
        return _write(*engine_and_table(path), stream, request, {})
    if is_unity_name(request.path):
        return _write_to_unity(request, data, options, catalog, location)
    if location is not None:
        raise ArgumentError(
            f"location: the argument is only for tables of Unity Catalog, and {request.path!r} "
            "isn't a uc:// URI. Remove location, and pass the table's path as path.",
            argument="location",
        )
    engine = for_path(request.path, options)
    stream = record_batches(data, "data")
    return _write(engine, Table.for_path(engine, request.path, catalog), stream, request, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The checked arguments of `write`."""

    path: str
    mode: str
    partition_by: tuple[str, ...] | None
    configuration: Mapping[str, str]
    merge_schema: bool
    overwrite_schema: bool
    replace_where: str | None
    dynamic: bool
    commit_metadata: CommitMetadata | None
    transaction: tuple[str, int] | None
    target_file_size: int | None
    compression: str | None
    name: str | None
    description: str | None

    def check(self, spelled: Mapping[str, str]) -> None:
        """Reject arguments that can't be combined.

        Args:
            spelled: for each argument with two names, the name that the caller used, by Bayou's
                name. For example, `{"replace_where": "predicate"}` if the caller used `deltalake`'s
                name.
        """
        overwrites = {
            spelled["overwrite_schema"]: self.overwrite_schema,
            spelled["replace_where"]: self.replace_where is not None,
            "partition_overwrite": self.dynamic,
        }
        given = [argument for argument, is_given in overwrites.items() if is_given]
        if given and self.mode != "overwrite":
            raise ArgumentError(
                f"{given[0]}: the argument only applies to an overwrite. Set mode='overwrite', or "
                f"remove {given[0]}.",
                argument=given[0],
            )
        if len(given) > 1 and not (self.replace_where is None and self.dynamic):
            raise ArgumentError(
                f"{given[1]}: {given[0]} and {given[1]} can't be combined. Set one of them.",
                argument=given[1],
            )

    def table_write(
        self, table: Table, schema: StructType, properties: Mapping[str, str]
    ) -> TableWrite:
        """Return the `TableWrite` with which the kernel writes rows with this schema."""
        return TableWrite(
            table=table.path,
            schema=schema,
            mode=_MODES[self.mode],
            partition_by=self.partition_by,
            replace_where=self.replace_where,
            dynamic_partitions=self.dynamic,
            merge_schema=self.merge_schema,
            overwrite_schema=self.overwrite_schema,
            compression=self.compression,
            target_file_size=self.target_file_size,
            properties={**properties, **self.configuration},
            application=self.transaction,
            engine_info=ENGINE_INFO,
            user_metadata=self.commit_metadata,
            name=self.name,
            description=self.description,
            updates_metadata=True,
        )


def _write_to_unity(
    request: _Request,
    data: RowSource,
    options: Mapping[str, str],
    catalog: Catalog | None,
    location: str | None,
) -> int:
    if catalog is not None:
        raise ArgumentError(
            f"{request.path}: the catalog argument can't be used with a table of Unity Catalog. "
            "Remove the argument.",
            argument="catalog",
        )
    from bayou.unity.tables import open_for_write

    stream = record_batches(data, "data")
    target = open_for_write(request.path, options, location, request.configuration)
    version = _write(target.engine, target.table, stream, request, target.properties)
    target.after_commit()
    return version


def _write(
    engine: Engine,
    table: Table,
    stream: pa.RecordBatchReader,
    request: _Request,
    properties: Mapping[str, str],
) -> int:
    """Write the rows of a stream.

    Args:
        properties: properties of a new table, in addition to the properties of the request.
    """
    snapshot = latest_or_none(engine, table)
    if snapshot is not None and request.mode == "ignore":
        return snapshot.version
    rows: Any = stream.schema
    if snapshot is None:
        if table.catalog is not None:
            properties = {**_MANAGED, **properties}
    elif not request.overwrite_schema:
        _check_partitioning(snapshot, request.partition_by)
        widens = request.merge_schema and TYPE_WIDENING.read(snapshot.properties)
        rows = fitting_schema(stream.schema, snapshot.schema, widens=widens)
    schema = _delta_schema(table.path, rows, None if request.overwrite_schema else snapshot)
    write = request.table_write(table, schema, properties)
    plan = plan_write(engine, write, catalog=table.catalog, latest=snapshot)
    if plan.is_noop:
        return table.latest_snapshot(engine).version
    batches = stream if rows is stream.schema else cast_batches(table.path, stream, rows)
    state = TransactionState.from_bytes(plan.state).for_writer(0, 1)
    files = write_task_data(engine, state, batches)
    with discard_unless_committed(lambda: delete_data_files(engine, table.path, files)):
        result = commit_write(engine, write, plan, files, catalog=table.catalog, planned=snapshot)
    if not result.files_committed:
        discard_unneeded(table.path, lambda: delete_data_files(engine, table.path, files))
    assert result.version is not None  # the table exists
    return result.version


def _delta_schema(table: str, rows: Any, snapshot: Snapshot | None) -> StructType:
    """Return the Delta schema of rows.

    A column may have Arrow's type null only if the table has a column of the same name.

    Args:
        rows: the Arrow schema of the rows.
        snapshot: the existing table. None if the write creates the table or replaces its schema.
    """
    if snapshot is None:
        return from_arrow_schema(rows, table=table)
    schema = from_arrow_schema(rows, table=table, void=True)
    new = [field.name for field in schema if snapshot.schema.get(field.name) is None]
    from_arrow_schema(pa.schema([rows.field(name) for name in new]), table=table)
    return schema


def _checked_choice(
    value: Any, argument: str, choices: Sequence[str] | Mapping[str, Any], noun: str
) -> str:
    if value not in choices:
        raise ArgumentError(
            f"{argument}: {value!r} isn't {noun}. Use one of {', '.join(choices)}.",
            argument=argument,
        )
    return str(value)


def _check_handle_only(table: str, arguments: Mapping[str, object]) -> None:
    """Reject arguments that can't be set if the table is given as a handle.

    Args:
        arguments: value of each argument, by argument name. A handle already contains these
            settings.
    """
    for argument, value in arguments.items():
        if value:
            raise ArgumentError(
                f"{argument}: the handle of {table} already has this setting. Remove {argument}, "
                "or pass the table's path instead of the handle.",
                argument=argument,
            )


def _check_one_spelling(spelling: str, **others: bool) -> None:
    """Raise an error if an argument is set under two names.

    Args:
        spelling: the name under which the argument is set.
        others: for each other name, whether it is set too.
    """
    for other, is_given in others.items():
        if is_given:
            raise ArgumentError(
                f"{spelling}: {spelling} and {other} are both set. Give one of them.",
                argument=spelling,
            )


def _checked_columns(partition_by: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(partition_by, str):
        return (partition_by,)
    return checked_names(partition_by, "partition_by")


def _checked_transaction(transaction: object) -> tuple[str, int] | None:
    if transaction is None:
        return None
    if not isinstance(transaction, tuple) or len(transaction) != 2:
        raise ArgumentError(
            f"transaction: {transaction!r} isn't a transaction identifier. Give an application id "
            "and a version, such as ('nightly load', 12).",
            argument="transaction",
        )
    application, version = transaction
    if not checked_string(application, "transaction"):
        raise ArgumentError(
            "transaction: the application id is empty. Give an id.", argument="transaction"
        )
    return application, checked_version(version, "transaction")


def _optional_string(value: str | None, argument: str) -> str | None:
    return None if value is None else checked_string(value, argument)


def _check_partitioning(snapshot: Snapshot, partition_by: tuple[str, ...] | None) -> None:
    if partition_by is None:
        return
    columns = [name.lower() for name in snapshot.partition_columns]
    if [name.lower() for name in partition_by] != columns:
        raise SchemaError(
            f"{snapshot.path}: the table is partitioned by "
            f"({', '.join(snapshot.partition_columns)}), not by ({', '.join(partition_by)}). "
            "Remove partition_by, or overwrite the table with overwrite_schema=True.",
            table=snapshot.path,
        )
