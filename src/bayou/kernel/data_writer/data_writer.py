"""Writing of a transaction's data files, from batches of rows to `add` actions.

`write_data` splits rows by partition and writes them. A connector can also write the files of each
partition itself, with `transform_logical_data`, `get_write_context` and `generate_append_actions`.
`write_rows` writes rows that already satisfy the table's constraints.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from bayou.errors import BayouError, SchemaError
from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.arrow.read_ahead import map_ahead
from bayou.kernel.arrow.types import to_arrow_type, with_schema
from bayou.kernel.data_writer.partition_files import (
    BufferedRows,
    PartitionBuffers,
    PartitionWriterPool,
)
from bayou.kernel.data_writer.partitioner import PartitionKey, PartitionSplitter, split_batch
from bayou.kernel.engine import DataFileStatus, Engine
from bayou.kernel.expressions.model import LiteralValue
from bayou.kernel.scan.scan_file import data_file_path
from bayou.kernel.scan.scan_state import ROW_COMMIT_VERSION, ROW_ID
from bayou.kernel.table_features.column_mapping import column_mapping_mode
from bayou.kernel.table_features.generated_columns_and_constraints import RowConstraints
from bayou.kernel.table_features.variant import fill_null_variants
from bayou.kernel.transaction_state import TransactionState, WriteContext
from bayou.protocol.actions import AddCDCFile, AddFile
from bayou.protocol.file_names import (
    MAX_FOLDER_NAME_BYTES,
    data_file_path_to_uri,
    partition_directory,
)
from bayou.protocol.partition_values import serialize
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import VOID, StructType, nested_types

_LOG = logging.getLogger(__name__)
_BUFFERED_BYTES = 256 << 20


def transform_logical_data(
    engine: Engine,
    state: TransactionState,
    batches: Iterable[pa.RecordBatch],
    partition_values: Mapping[str, LiteralValue],
) -> CloseableIterator[pa.RecordBatch]:
    """Convert rows of one partition to rows of data files. Closing the result closes `batches`.

    Missing columns get generated or default values, and constraints are checked.

    Raises:
        SchemaError: a column of the rows isn't in the table, or has a different type in the table.
        ConstraintViolationError: a row violates a constraint.
    """
    rules = RowConstraints(engine, state)
    constants = {
        name: to_scalar(value, to_arrow_type(state.schema.select([name]).fields[0].data_type))
        for name, value in partition_values.items()
    }
    physical = (to_physical_batch(state, rules.apply(batch, constants)) for batch in batches)
    return CloseableIterator(physical, batches)


def to_physical_batch(
    state: TransactionState,
    batch: pa.RecordBatch,
    additional_columns: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """Convert a batch with the table's columns to the physical schema of data files.

    Args:
        additional_columns: columns that are written in addition to the table's columns, such as
            row ids: a mapping from the name in the rows to the name in the data files.

    Raises:
        SchemaError: the table or a struct has only void columns, so a file can't contain the rows.
    """
    additional_columns = additional_columns or {}
    if batch.num_rows:
        _check_can_store_rows(state)
    names = [f.name for f in state.data_schema]
    data = fill_null_variants(batch.select([*names, *additional_columns]), state.data_schema)
    schema = state.physical_schema
    for name, stored in additional_columns.items():
        if name in (ROW_ID, ROW_COMMIT_VERSION):
            field = state.row_tracking_field(stored, is_row_id=name == ROW_ID)
        else:
            field = pa.field(stored, batch.schema.field(name).type)
        schema = schema.append(field)
    return with_schema(data, schema, table=state.table)


def _check_can_store_rows(state: TransactionState) -> None:
    """Check that not all data columns are void, and not all fields of a struct are void."""
    schema = state.data_schema
    if not schema.fields:
        raise SchemaError(
            f"{state.table}: rows can't be written, because all columns except partition columns "
            "have the type void (DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS). Add a "
            "column of a type other than void, or change the type of a column.",
            table=state.table,
        )
    for path, data_type, _ in nested_types(schema):
        if isinstance(data_type, StructType) and all(f.data_type == VOID for f in data_type):
            name = ".".join(path)
            raise SchemaError(
                f"{state.table}: rows can't be written, because all fields of the struct {name!r} "
                "have the type void (DELTA_CANNOT_WRITE_EMPTY_SCHEMA.STRUCT_ALL_VOID_FIELDS). Add "
                "a field of a type other than void, or change the type of a field.",
                table=state.table,
                column=name,
            )


def get_write_context(
    state: TransactionState, partition_values: Mapping[str, LiteralValue]
) -> WriteContext:
    """Return the directory, statistics columns and options for files of a partition.

    Args:
        partition_values: a value for each partition column; empty if the table isn't partitioned.

    Raises:
        SchemaError: a partition column is missing, a name isn't a partition column, or a value
            doesn't have the column's type.
    """
    missing = [c for c in state.partition_columns if c not in partition_values]
    extra = [c for c in partition_values if c not in state.partition_columns]
    if missing or extra:
        raise SchemaError(
            f"{state.table}: the table is partitioned by ({', '.join(state.partition_columns)}), "
            f"but the partition values are for ({', '.join(partition_values)}). Pass a value for "
            "each partition column.",
            table=state.table,
            column=(missing or extra)[0],
        )
    serialized: dict[str, str | None] = {}
    for name in state.partition_columns:
        field = state.schema.select([name]).fields[0]
        try:
            value = serialize(partition_values[name], field.data_type)
            serialized[state.physical_name(name)] = value
        except ValueError as error:
            raise SchemaError(
                f"{state.table}: the value of partition column {name!r} is invalid: {error}. Pass "
                f"a value of type {field.data_type}.",
                table=state.table,
                column=name,
            ) from error
    return write_context(state, serialized)


def generate_append_actions(
    state: TransactionState, statuses: Iterable[DataFileStatus], context: WriteContext
) -> CloseableIterator[AddFile]:
    """Return the `add` actions of written files; closing the result closes `statuses`."""
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
            stats=None if status.statistics is None else state.statistics_json(status.statistics),
            tags=state.file_tags or None,
        )


def write_data(
    engine: Engine, state: TransactionState, batches: Iterable[pa.RecordBatch]
) -> list[AddFile]:
    """Write rows to new data files of the table, split by partition values.

    The files become part of the table when the actions are committed. If the write fails, its files
    are deleted.

    If the table isn't partitioned, one batch at a time is in memory. If it is partitioned, rows are
    buffered by partition, because each partition gets one file, or several files of the target
    size. Up to 256 MB of rows are buffered in memory, and further rows on the local disk. Writing
    needs up to 256 MB of memory in addition to the buffers.

    Raises:
        SchemaError: a column of the rows isn't in the table, or has a different type in the table.
        ConstraintViolationError: a row violates a constraint.
        StorageError: a file can't be written.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> print([add.path for add in adds])
    """
    rules = RowConstraints(engine, state)
    with CloseableIterator(map(rules.apply, batches), batches) as rows:
        return write_rows(engine, state, rows)


def write_rows(
    engine: Engine,
    state: TransactionState,
    batches: Iterable[pa.RecordBatch],
    *,
    additional_columns: Mapping[str, str] | None = None,
) -> list[AddFile]:
    """Write rows like `write_data`, but without checks, generated values and casts.

    Args:
        additional_columns: columns that are written in addition to the table's columns, such as
            row ids: a mapping from the name in the rows to the name in the data files.
    """
    adds: list[AddFile] = []
    try:
        if state.partition_columns:
            _write_partitioned(engine, state, batches, additional_columns or {}, adds)
        else:
            rows = (to_physical_batch(state, batch, additional_columns) for batch in batches)
            _write_files(engine, state, write_context(state, {}), rows, adds)
    except BaseException:
        try:
            delete_data_files(engine, state.table, adds)
        except BayouError as error:
            _LOG.warning(
                "%s: %d files of a failed write can't be deleted: %s. VACUUM deletes them.",
                state.table,
                len(adds),
                str(error).removesuffix("."),
            )
        raise
    return adds


def delete_data_files(engine: Engine, table: str, adds: Iterable[AddFile | AddCDCFile]) -> None:
    """Delete files that were written but not committed.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> delete_data_files(engine, path, adds)  # instead of a commit
    """
    engine.files.delete_files(data_file_path(table, add.path) for add in adds)


def _write_partitioned(
    engine: Engine,
    state: TransactionState,
    batches: Iterable[pa.RecordBatch],
    additional_columns: Mapping[str, str],
    adds: list[AddFile],
) -> None:
    def write(key: PartitionKey, buffered: BufferedRows, actions: list[AddFile]) -> None:
        rows = (
            to_physical_batch(state, batch, additional_columns)
            for batch in buffered.combined_batches()
        )
        context = write_context(state, state.partition_values(key))
        _write_files(engine, state, context, rows, actions)

    splitter = PartitionSplitter(state, tuple(additional_columns))
    # Rows take about twice as many bytes in memory as in a file.
    file_bytes = 2 * state.parquet_options.target_file_size
    buffers = PartitionBuffers(_BUFFERED_BYTES, file_bytes)
    pieces = (piece for batch in batches for piece in split_batch(batch))
    with (
        PartitionWriterPool(write, adds) as files,
        map_ahead(splitter.split, pieces, pa.cpu_count()) as sorted_pieces,
    ):
        for slices in sorted_pieces:
            buffers.add(slices)
            for key, buffered in buffers.pop_full():
                files.submit(key, buffered)
        for key, buffered in buffers.pop_all():
            files.submit(key, buffered)


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
    for name, segment in zip(state.partition_columns, folder.split("/"), strict=False):
        size = len(segment.encode())
        if size > MAX_FOLDER_NAME_BYTES:
            raise SchemaError(
                f"{state.table}: a value of partition column {name!r} is too long for a folder "
                f"name: {segment[:60]}... has {size} bytes, and the maximum is "
                f"{MAX_FOLDER_NAME_BYTES}. Partition by another column, or set "
                "delta.randomizeFilePrefixes, which removes the values from folder names.",
                table=state.table,
                column=name,
            )


def uses_partition_folders(
    configuration: Mapping[str, str], partition_columns: Sequence[str]
) -> bool:
    """Whether data files are in folders named after their partition values."""
    # As in delta-spark, tables with column mapping don't have partition folders.
    mapped = bool(partition_columns) and column_mapping_mode(configuration) != "none"
    return not (TableProperties(configuration).randomize_file_prefixes or mapped)


def write_context(state: TransactionState, values: Mapping[str, str | None]) -> WriteContext:
    """Return the directory, statistics columns and options for files of a partition.

    Args:
        values: serialized partition values by physical column name.
    """
    names = [state.physical_name(name) for name in state.partition_columns]
    if not uses_partition_folders(state.configuration, names):
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
