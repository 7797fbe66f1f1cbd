"""`StartedWrite`: a write that is planned and committed in the driver, and executed by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bayou.engines import for_path, from_description
from bayou.errors import MetadataChangedError, PredicateError, SchemaError
from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.commands.write import (
    TableWrite,
    WritePlan,
    WriteResult,
    commit_write,
    plan_write,
)
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.transaction.commit import discard_unless_committed, discard_unneeded
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.column_metadata import is_filled_by_writers
from bayou.spark.expressions.session_semantics import (
    check_kernel_compares,
    check_session_rules,
    has_subquery,
    with_zone,
)
from bayou.spark.write.options import WriteOptions
from bayou.spark.write.tasks import decode_files, delete_task_files, write_task

_MAX_TASKS = 1 << 16
"""Maximum number of tasks that is assumed if the number of tasks is unknown.

With a maximum of n tasks, each task generates every n-th value of an identity column.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedWrite:
    """A planned write. It can be pickled.

    Attributes:
        plan: the `WritePlan`. It has the version on which the write is based, and the
            `TransactionState` that tasks need.
    """

    write: TableWrite
    plan: WritePlan
    engine: EngineDescription

    @property
    def done(self) -> bool:
        """Whether there is nothing to write.

        An idempotent write that is already committed writes nothing. A write with the mode `ignore`
        writes nothing if the table exists.
        """
        return self.plan.is_noop

    def write_task(
        self, batches: Iterable[pa.RecordBatch], task: int, tasks: int | None = None
    ) -> bytes:
        """Write the rows of a task to files, and return the encoded actions of the files.

        Args:
            task: number of the task, from 0. All attempts of a task have the same number.
            tasks: maximum number of tasks; None if it is unknown.
        """
        writer = (task, tasks or _MAX_TASKS) if self.plan.generates_identity else None
        return write_task(self.engine, self.plan.state, batches, writer=writer)

    def commit(
        self,
        messages: Sequence[bytes],
        engine: Engine | None = None,
        *,
        rows_read_from: int | None = None,
    ) -> WriteResult:
        """Commit the files of the tasks.

        The method deletes the files if the table already contains the write, or if the commit
        fails. The files remain if it is unknown whether the commit has succeeded.

        Args:
            messages: the results of `write_task`.
            engine: the engine for the commit; if None, a new engine is created.
            rows_read_from: for an overwrite with rows of the same table, the version from which the
                rows were read. The commit is based on this version, and doesn't remove rows that
                were committed later. If None, the commit is based on the version in `plan`.

        Raises:
            MetadataChangedError: the table's metadata in the version `rows_read_from` differs from
                the metadata in the version of `plan`.
        """
        written = decode_files(messages)
        engine = engine or from_description(self.engine)
        with discard_unless_committed(lambda: self.delete(messages)):
            plan = self.plan
            if rows_read_from is not None:
                plan = _based_on(engine, plan, rows_read_from)
            result = commit_write(engine, self.write, plan, written)
        if not result.files_committed:
            discard_unneeded(plan.table, lambda: self.delete(messages))
        return result

    def delete(self, messages: Sequence[bytes]) -> None:
        """Delete the files of a failed write; `messages` are the results of `write_task`."""
        delete_task_files(self.engine, self.plan.table, messages)

    def with_transaction_identifier(self, app_id: str, version: int) -> StartedWrite:
        """Return a copy with a transaction identifier, which makes the write idempotent."""
        return replace(self, write=replace(self.write, application=(app_id, version)))

    def with_tags(self, tags: Mapping[str, str]) -> StartedWrite:
        """Return a copy that writes tags to `commitInfo`."""
        return replace(self, write=replace(self.write, tags=tags))

    def without_state(self) -> StartedWrite:
        """Return a copy without the `TransactionState`, which the commit doesn't need."""
        return replace(self, plan=replace(self.plan, state=b""))


def start_write(
    options: WriteOptions, write: TableWrite, *, builds_on: int | None = None
) -> StartedWrite:
    """Plan a write. `StartedWrite.write_task` and `StartedWrite.commit` execute it.

    Args:
        builds_on: the version on which the write is based; None for the latest version.
    """
    engine = for_path(options.path, options.storage)
    write = _with_session_semantics(engine, options, write)
    plan = plan_write(engine, write, base_version=builds_on)
    if not write.replaces_definition:
        options.check_dynamic_partitions(plan.partition_columns)
    if plan.read_version is not None and not (plan.is_noop or write.replaces_schema):
        _check_partition_columns(plan, write)
    return StartedWrite(write=write, plan=plan, engine=engine.description())


def _check_partition_columns(plan: WritePlan, write: TableWrite) -> None:
    """Raise `SchemaError` if the rows lack a partition column.

    Columns whose values the writers compute, such as generated columns, can be missing.
    """
    written = {name.lower() for name in write.schema.names}
    missing = [name for name in plan.partition_columns if name.lower() not in written]
    if not missing:
        return
    for field in TransactionState.from_bytes(plan.state).schema.select(missing):
        if not is_filled_by_writers(field):
            raise SchemaError(
                f"{plan.table}: the rows lack the partition column {field.name!r} "
                f"(DELTA_PARTITION_COLUMN_NOT_FOUND). Their columns are "
                f"{', '.join(write.schema.names)}. Add the column to the rows.",
                table=plan.table,
                column=field.name,
            )


def _with_session_semantics(engine: Engine, options: WriteOptions, write: TableWrite) -> TableWrite:
    """Return a write whose condition `replace_where` is checked and has the session's time zone.

    Timestamps that have no time zone in the condition get the session's time zone. The types of the
    condition's columns are taken from the table, because the rows to write can lack these columns.

    Raises:
        BayouError: the condition has a subquery, or the kernel and Spark could evaluate the
            condition differently.
    """
    if write.replace_where is None:
        return write
    table, name = Table.for_path(engine, write.table), "replaceWhere"
    if has_subquery(write.replace_where):
        raise PredicateError(
            f"{table.path}: the condition of {name} has a subquery: {write.replace_where} "
            "(DELTA_UNSUPPORTED_SUBQUERY). Run the subquery first, and use its result in the "
            "condition; or use MERGE.",
            expression=write.replace_where,
        )
    if not table.exists(engine):
        return write
    schema = table.latest_snapshot(engine).schema
    if not options.compares_bytes:
        check_kernel_compares(write.replace_where, schema, name=name)
    if options.session_rule is not None:
        check_session_rules(write.replace_where, schema, options.session_rule, name=name)
    where = with_zone(write.replace_where, schema, options.time_zone, name=name)
    return replace(write, replace_where=where)


def _based_on(engine: Engine, plan: WritePlan, version: int) -> WritePlan:
    if plan.read_version is None or plan.read_version == version:
        return plan
    table = Table.for_path(engine, plan.table)
    read, planned = (table.snapshot_as_of_version(engine, v) for v in (version, plan.read_version))
    check_same_metadata(read, planned)
    return replace(plan, read_version=version)


def check_same_metadata(read: Snapshot, latest: Snapshot) -> None:
    """Check that the metadata of a table is the same in two versions.

    Args:
        read: the version from which the rows were read.
        latest: the version on which the write is planned.

    Raises:
        MetadataChangedError: the metadata differs, such as the schema or the properties.
    """
    if read.metadata != latest.metadata:
        raise MetadataChangedError(
            f"{latest.path}: the rows were read from version {read.version} of the table, but "
            f"version {latest.version} has other metadata. Load the table again, and repeat the "
            "write.",
            table=latest.path,
            winning_version=latest.version,
        )
