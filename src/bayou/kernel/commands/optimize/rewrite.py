"""Task of OPTIMIZE and REORG: rewrite some files to new files without changing rows.

A task can be pickled and run in another process. Rows that a deletion vector deletes aren't copied.
If row tracking is enabled, rows keep their row ids and commit versions in materialized columns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import BayouError, CorruptTableError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.arrow.types import with_schema
from bayou.kernel.commands.optimize.files_in_order import read_in_order
from bayou.kernel.commands.optimize.row_order import RowOrder, ordered_rows
from bayou.kernel.data_writer.data_writer import (
    delete_data_files,
    generate_append_actions,
    get_write_context,
    write_context,
)
from bayou.kernel.data_writer.partitioner import zoneless_values
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_COMMIT_VERSION, ROW_ID, ScanState
from bayou.kernel.table_features.variant import fill_null_variants
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import partition_values
from bayou.protocol.actions import AddFile
from bayou.protocol.partition_values import PartitionValue

_LOG = logging.getLogger(__name__)

_UNLIMITED_SIZE = 1 << 62
"""Target file size in bytes that is never reached, so all rows are written to one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask(PickledTask):
    """Files of one partition to rewrite, and the layout of the new files.

    Attributes:
        state: transaction state for writing the new files.
        scan_state: scan state for reading the table's columns and, if row tracking is enabled, row
            ids and row commit versions.
        order: order of the rows in the new files. If None, rows keep their current order.
        num_files: number of new files, with about the same number of rows each.
        statistics_columns: dotted physical paths of columns that get statistics in addition to the
            columns that the table properties select.
        tags: tags that are added to the `add` actions of the new files.
        partition_names: new physical names of partition columns by their old physical names; empty
            if the names don't change.
    """

    state: TransactionState
    scan_state: ScanState
    files: tuple[ScanFile, ...]
    order: RowOrder | None = None
    num_files: int = 1
    statistics_columns: tuple[str, ...] = ()
    tags: Mapping[str, str] | None = None
    clustering_provider: str | None = None
    partition_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def rewrite(engine: Engine, task: RewriteTask, *, memory_bytes: int = 256 << 20) -> list[AddFile]:
    """Run a rewrite; on any error, delete the new files.

    Returns the `add` actions of the new files, with `dataChange` false. The list is empty if there
    are no rows.

    Args:
        memory_bytes: memory for sorting rows, in addition to the writer's row group and the batches
            being read. Rows that exceed it are spilled to the local disk.
    """
    return _write_files(engine, task, _streams(engine, task, memory_bytes))


def write_rewritten(
    engine: Engine, task: RewriteTask, batches: Iterable[pa.RecordBatch]
) -> list[AddFile]:
    """Write the rows of a rewrite; return the `add` actions of the new files.

    Args:
        batches: rows in their final order, with the columns that `read_in_order` returns.
    """
    return _write_files(engine, task, [CloseableIterator(iter(batches))])


def _write_files(
    engine: Engine, task: RewriteTask, streams: Iterable[CloseableIterator[pa.RecordBatch]]
) -> list[AddFile]:
    adds: list[AddFile] = []
    try:
        for rows in streams:
            adds.extend(_write_file(engine, task, rows))
    except BaseException:
        try:
            delete_data_files(engine, task.state.table, adds)
        except BayouError as error:
            _LOG.warning(
                "%s: can't delete %d files of a failed rewrite: %s. VACUUM deletes them later.",
                task.state.table,
                len(adds),
                error,
            )
        raise
    return adds


def typed_partition_values(
    state: TransactionState, values: Mapping[str, str | None], file: str
) -> dict[str, PartitionValue]:
    """Parse a file's `partitionValues` to values by logical column name."""
    typed: dict[str, PartitionValue] = {}
    for name in state.partition_columns:
        field = state.schema.select([name]).fields[0]
        serialized = values.get(state.physical_name(name))
        try:
            typed[name] = partition_values.parse(serialized, field.data_type)
        except ValueError as error:
            raise CorruptTableError(
                f"{state.table}: file {file} has the invalid value {serialized!r} of partition "
                f"column {name!r} ({field.data_type}) in the log: {error}. Rewrite the file with "
                "the writer that added it.",
                table=state.table,
                file=file,
            ) from error
    return typed


def _streams(
    engine: Engine, task: RewriteTask, memory_bytes: int
) -> Iterator[CloseableIterator[pa.RecordBatch]]:
    """Yield a stream of rows for each new file.

    The caller must read each stream to its end before it requests the next stream.
    """
    if task.order is None:
        yield read_in_order(engine, task.scan_state, task.files)
        return
    with ordered_rows(
        engine, task.scan_state, task.files, task.order, memory_bytes=memory_bytes
    ) as rows:
        yield from rows.cut(task.num_files)


def _write_file(
    engine: Engine, task: RewriteTask, rows: CloseableIterator[pa.RecordBatch]
) -> Iterator[AddFile]:
    first = task.files[0]
    serialized = {task.partition_names.get(k, k): v for k, v in first.partition_values.items()}
    values: Any = typed_partition_values(task.state, serialized, first.path)
    context = get_write_context(task.state, values)
    local = zoneless_values(task.state, serialized)
    if local:
        context = write_context(task.state, {**context.partition_values, **local})
    with _physical(task, rows) as batches:
        statuses = engine.parquet.write_parquet_files(
            context.target_directory,
            batches,
            tuple(dict.fromkeys((*context.statistics_columns, *task.statistics_columns))),
            replace(context.options, target_file_size=_UNLIMITED_SIZE),
        )
        with generate_append_actions(task.state, statuses, context) as adds:
            for add in adds:
                yield msgspec.structs.replace(
                    add,
                    data_change=False,
                    tags={**(add.tags or {}), **(task.tags or {})} or None,
                    clustering_provider=task.clustering_provider,
                )


@closeable
def _physical(task: RewriteTask, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows with physical column names, and with materialized row ids and commit versions."""
    names = [f.name for f in task.state.data_schema]
    fields = list(task.state.physical_schema)
    for stored, column in zip(
        task.scan_state.row_tracking or (), (ROW_ID, ROW_COMMIT_VERSION), strict=False
    ):
        if stored and column in task.scan_state.metadata_columns:
            names.append(column)
            fields.append(task.state.row_tracking_field(stored, is_row_id=column == ROW_ID))
    schema = pa.schema(fields)
    with CloseableIterator(rows) as batches:
        for batch in batches:
            data = fill_null_variants(batch.select(names), task.state.data_schema)
            yield with_schema(data, schema, table=task.state.table)
