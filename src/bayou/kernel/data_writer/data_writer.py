"""Data files of a transaction: from logical batches to `add` actions.

`transform_logical_data`, `get_write_context` and `generate_append_actions` are the steps that a
connector takes itself; `write_data` takes them all, for rows of any mix of partitions, and
`write_rows` those behind the rules: for rows that the table had before.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from bayou.errors import BayouError, SchemaError
from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.arrow.types import relabelled, to_arrow_type
from bayou.kernel.data_writer.partition_files import PartitionBuffers, PartitionFiles, WaitingRows
from bayou.kernel.data_writer.partitioner import PartitionKey, PartitionSplitter, pieces_to_sort
from bayou.kernel.engine import DataFileStatus, Engine
from bayou.kernel.expressions.model import LiteralValue
from bayou.kernel.scan.scan_file import data_file_path
from bayou.kernel.scan.source import mapped_ahead
from bayou.kernel.table_features.column_mapping import column_mapping_mode
from bayou.kernel.table_features.constraints import RowRules
from bayou.kernel.table_features.variant import with_bytes_in_nulls
from bayou.kernel.transaction_state import TransactionState, WriteContext
from bayou.protocol import partition_values as wire
from bayou.protocol.actions import AddCDCFile, AddFile
from bayou.protocol.file_names import (
    LONGEST_FOLDER_NAME,
    data_file_path_to_uri,
    partition_directory,
)
from bayou.protocol.properties import TableProperties

__all__ = [
    "delete_data_files",
    "folders_show_values",
    "generate_append_actions",
    "get_write_context",
    "physical_rows",
    "transform_logical_data",
    "write_context",
    "write_data",
    "write_rows",
]

_LOG = logging.getLogger(__name__)
_BUFFERED_BYTES = 256 << 20


def transform_logical_data(
    engine: Engine,
    state: TransactionState,
    batches: Iterable[pa.RecordBatch],
    partition_values: Mapping[str, LiteralValue],
) -> CloseableIterator[pa.RecordBatch]:
    """Rows of one partition as they stand in data files; closing the result closes `batches`.

    Columns that the rows lack get what the table makes of them, and its rules are checked.

    Raises:
        SchemaError: a column the table doesn't have, or of another type.
        ConstraintViolationError: a row breaks a rule of the table.
    """
    rules = RowRules(engine, state)
    constants = {
        name: pa.scalar(value, to_arrow_type(state.schema.select([name]).fields[0].data_type))
        for name, value in partition_values.items()
    }
    physical = (physical_rows(state, rules.apply(batch, constants)) for batch in batches)
    return CloseableIterator(physical, batches)


def physical_rows(
    state: TransactionState, batch: pa.RecordBatch, carried: Mapping[str, str] | None = None
) -> pa.RecordBatch:
    """A batch with the table's columns as its data files have them.

    Args:
        carried: columns that aren't the table's and go into the files too, by their names in the
            batch: the names that they have there.
    """
    carried = carried or {}
    names = [f.name for f in state.data_schema]
    data = with_bytes_in_nulls(batch.select([*names, *carried]), state.data_schema)
    schema = state.physical_schema
    for name, stored in carried.items():
        schema = schema.append(pa.field(stored, batch.schema.field(name).type))
    return relabelled(data, schema, table=state.table)


def get_write_context(
    state: TransactionState, partition_values: Mapping[str, LiteralValue]
) -> WriteContext:
    """Where files of a partition go, and which statistics are kept.

    Args:
        partition_values: a value for each partition column of the table, empty without any.

    Raises:
        SchemaError: a partition column is missing, a name isn't one, or a value isn't of its type.
    """
    missing = [c for c in state.partition_columns if c not in partition_values]
    extra = [c for c in partition_values if c not in state.partition_columns]
    if missing or extra:
        raise SchemaError(
            f"{state.table} is partitioned by ({', '.join(state.partition_columns)}); partition "
            f"values were given for ({', '.join(partition_values)}).",
            table=state.table,
            column=(missing or extra)[0],
        )
    serialized: dict[str, str | None] = {}
    for name in state.partition_columns:
        field = state.schema.select([name]).fields[0]
        try:
            text = wire.serialize(partition_values[name], field.data_type)
            serialized[state.physical_name(name)] = text
        except ValueError as error:
            raise SchemaError(
                f"Partition column {name!r} of {state.table}: {error}.",
                table=state.table,
                column=name,
            ) from error
    return write_context(state, serialized)


def generate_append_actions(
    state: TransactionState, statuses: Iterable[DataFileStatus], context: WriteContext
) -> CloseableIterator[AddFile]:
    """The actions that add written files to the table; closing them closes `statuses`."""
    return CloseableIterator(_append_actions(state, statuses, context), statuses)


def _append_actions(
    state: TransactionState, statuses: Iterable[DataFileStatus], context: WriteContext
) -> Iterator[AddFile]:
    root = f"{state.table}/"
    for status in statuses:
        relative = status.path.removeprefix(root)
        yield AddFile(
            path=data_file_path_to_uri(relative),
            partition_values=dict(context.partition_values),
            size=status.size,
            modification_time=status.modification_time,
            data_change=state.data_change,
            stats=None if status.statistics is None else state.statistics_text(status.statistics),
        )


def write_data(
    engine: Engine, state: TransactionState, batches: Iterable[pa.RecordBatch]
) -> list[AddFile]:
    """Write rows, split by their partition values, to new files of the table.

    Memory holds one batch where the table isn't partitioned, else some 256 MB of rows that wait
    for their partition's file, and about as much again of those that are being written; further
    ones wait on the local disk, so that a partition gets one file, or files of the target size.
    Nothing is part of the table before the actions are committed; on an error the files written so
    far are deleted.

    Raises:
        SchemaError: a column the table doesn't have, or of another type.
        ConstraintViolationError: a null where none may be.
        StorageError: the store refused.
    """
    rules = RowRules(engine, state)
    with CloseableIterator(map(rules.apply, batches), batches) as rows:
        return write_rows(engine, state, rows)


def write_rows(
    engine: Engine,
    state: TransactionState,
    batches: Iterable[pa.RecordBatch],
    *,
    carried: Mapping[str, str] | None = None,
) -> list[AddFile]:
    """Write rows that keep the table's rules already, as `RowRules.apply` gives them.

    As `write_data`, but that nothing is checked, made or cast.

    Args:
        carried: see `physical_rows`.
    """
    adds: list[AddFile] = []
    try:
        if state.partition_columns:
            _write_partitioned(engine, state, batches, carried or {}, adds)
        else:
            rows = (physical_rows(state, batch, carried) for batch in batches)
            _write_files(engine, state, write_context(state, {}), rows, adds)
    except BaseException:
        try:
            delete_data_files(engine, state.table, adds)
        except BayouError as error:
            _LOG.warning("%d files of a failed write to %s stay: %s", len(adds), state.table, error)
        raise
    return adds


def delete_data_files(engine: Engine, table: str, adds: Iterable[AddFile | AddCDCFile]) -> None:
    """Delete files that were written and never committed."""
    engine.files.delete_files(data_file_path(table, add.path) for add in adds)


def _write_partitioned(
    engine: Engine,
    state: TransactionState,
    batches: Iterable[pa.RecordBatch],
    carried: Mapping[str, str],
    adds: list[AddFile],
) -> None:
    def write(key: PartitionKey, waiting: WaitingRows, found: list[AddFile]) -> None:
        rows = (physical_rows(state, part, carried) for part in waiting.together())
        _write_files(engine, state, write_context(state, state.partition_values(key)), rows, found)

    splitter = PartitionSplitter(state, tuple(carried))
    # Columns in memory take about twice what they take in a file.
    enough = 2 * state.parquet_options.target_file_size
    buffers = PartitionBuffers(_BUFFERED_BYTES, enough)
    pieces = (piece for batch in batches for piece in pieces_to_sort(batch))
    with (
        PartitionFiles(write, adds) as files,
        mapped_ahead(splitter.parts, pieces, pa.cpu_count()) as sorted_pieces,
    ):
        for parts in sorted_pieces:
            buffers.keep(parts)
            for key, waiting in buffers.pop_full():
                files.begin(key, waiting)
        for key, waiting in buffers.pop_all():
            files.begin(key, waiting)


def _write_files(
    engine: Engine,
    state: TransactionState,
    context: WriteContext,
    batches: Iterable[pa.RecordBatch],
    adds: list[AddFile],
) -> None:
    statuses = engine.parquet.write_parquet_files(
        context.target_directory, batches, context.statistics_columns, context.options
    )
    adds.extend(generate_append_actions(state, statuses, context))


def _check_folder(state: TransactionState, folder: str) -> None:
    """File systems don't take longer names, and say so only once rows were written."""
    for name, segment in zip(state.partition_columns, folder.split("/"), strict=False):
        size = len(segment.encode())
        if size > LONGEST_FOLDER_NAME:
            raise SchemaError(
                f"A value of partition column {name!r} of {state.table} is too long for the name "
                f"of a folder: {segment[:60]}... has {size} bytes, {LONGEST_FOLDER_NAME} are the "
                "most. Partition by another column, or set delta.randomizeFilePrefixes, by which "
                "folders don't show values.",
                table=state.table,
                column=name,
            )


def folders_show_values(configuration: Mapping[str, str], partition_columns: Sequence[str]) -> bool:
    """Whether files lie in folders that are named by their partition values."""
    # As delta-spark: directories don't show values under names that nobody gave.
    mapped = bool(partition_columns) and column_mapping_mode(configuration) != "none"
    return not (TableProperties(configuration).randomize_file_prefixes or mapped)


def write_context(state: TransactionState, values: Mapping[str, str | None]) -> WriteContext:
    """`get_write_context` for serialized values by physical names."""
    names = [state.physical_name(name) for name in state.partition_columns]
    if not folders_show_values(state.configuration, names):
        length = TableProperties(state.configuration).random_prefix_length
        folder = uuid.uuid4().hex[:length]
    else:
        folder = partition_directory(names, values)
        _check_folder(state, folder)
    return WriteContext(
        target_directory=f"{state.table}/{folder}" if folder else state.table,
        statistics_columns=state.statistics_columns(),
        partition_values=values,
        options=state.parquet_options,
    )
