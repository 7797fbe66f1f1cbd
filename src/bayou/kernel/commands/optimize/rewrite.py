"""Files whose rows move to new files as they are: the work item of OPTIMIZE and REORG.

An item is planned in one process and may run in another: it serializes, and what it gives are
`add` actions for the planner's commit. No row changes; deleted ones go, and where the table tracks
rows every row keeps its id and commit version, materialized beside it.
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
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.arrow.types import relabelled
from bayou.kernel.commands.optimize.read_ahead import read_in_order
from bayou.kernel.commands.optimize.row_order import RowOrder, ordered_rows
from bayou.kernel.data_writer.data_writer import (
    delete_data_files,
    generate_append_actions,
    get_write_context,
    write_context,
)
from bayou.kernel.data_writer.partitioner import zoneless_texts
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_COMMIT_VERSION, ROW_ID, ScanState
from bayou.kernel.table_features.variant import with_bytes_in_nulls
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import partition_values
from bayou.protocol.actions import AddFile
from bayou.protocol.partition_values import PartitionValue

__all__ = ["Rewrite", "rewrite", "typed_partition_values", "write_rewritten"]

_LOG = logging.getLogger(__name__)

_ONE_FILE = 1 << 62
"""A target size that no file reaches."""


class _WireRewrite(msgspec.Struct, frozen=True, array_like=True):
    state: bytes
    scan_state: bytes
    files: list[bytes]
    order: RowOrder | None
    num_files: int
    statistics_columns: tuple[str, ...]
    tags: dict[str, str] | None
    clustering_provider: str | None
    partition_names: dict[str, str]


_WIRE = WireFormat("rewrite of files", 2, _WireRewrite)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Files of one partition, and how their rows are laid out anew.

    Attributes:
        state: the table for writers.
        scan_state: how the files are read; with row ids and commit versions where the table
            tracks rows.
        files: of one partition.
        order: of the rows in the new files; None keeps them as they come.
        num_files: into how many files they go, with about the same number of rows each.
        statistics_columns: columns that get statistics besides those of the table's properties,
            dotted physical paths.
        tags: of the new files.
        clustering_provider: of the new files.
        partition_names: by physical names of partition columns as the files have them, those of
            the new files; empty where they stay.
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
        """Bytes of the files."""
        return sum(file.size for file in self.files)

    def to_bytes(self) -> bytes:
        """Serialize for another process."""
        return _WIRE.encode(
            _WireRewrite(
                self.state.to_bytes(),
                self.scan_state.to_bytes(),
                [file.to_bytes() for file in self.files],
                self.order,
                self.num_files,
                self.statistics_columns,
                None if self.tags is None else dict(self.tags),
                self.clustering_provider,
                dict(self.partition_names),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Rewrite:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: the bytes are malformed or of a newer package version.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                state=TransactionState.from_bytes(wire.state),
                scan_state=ScanState.from_bytes(wire.scan_state),
                files=tuple(ScanFile.from_bytes(file) for file in wire.files),
                order=wire.order,
                num_files=wire.num_files,
                statistics_columns=wire.statistics_columns,
                tags=wire.tags,
                clustering_provider=wire.clustering_provider,
                partition_names=wire.partition_names,
            ),
        )


def rewrite(engine: Engine, work: Rewrite, *, memory_bytes: int = 256 << 20) -> list[AddFile]:
    """Write an item's rows to new files; on an error those written so far are deleted.

    Args:
        memory_bytes: what ordering the rows may take in memory; more waits on the local disk. A
            writer's row group and the batches being read come on top.

    Returns:
        Their actions, with `dataChange` false. None for no rows.

    Raises:
        DataFileError: a file or its deletion vector is missing or damaged.
        StorageError: the store or the local disk refused.
    """
    return _files_of(engine, work, _streams(engine, work, memory_bytes))


def write_rewritten(
    engine: Engine, work: Rewrite, batches: Iterable[pa.RecordBatch]
) -> list[AddFile]:
    """Write some of an item's rows, put in order already, to one new file; see `rewrite`.

    Args:
        batches: as `read_in_order` gives them.
    """
    return _files_of(engine, work, [CloseableIterator(iter(batches))])


def _files_of(
    engine: Engine, work: Rewrite, streams: Iterable[CloseableIterator[pa.RecordBatch]]
) -> list[AddFile]:
    adds: list[AddFile] = []
    try:
        for rows in streams:
            adds.extend(_written(engine, work, rows))
    except BaseException:
        try:
            delete_data_files(engine, work.state.table, adds)
        except BayouError as error:
            _LOG.warning(
                "%d files of a failed rewrite of %s stay: %s", len(adds), work.state.table, error
            )
        raise
    return adds


def typed_partition_values(
    state: TransactionState, values: Mapping[str, str | None], file: str
) -> dict[str, PartitionValue]:
    """Values by logical name out of a file's `partitionValues`.

    Raises:
        CorruptTableError: a text that isn't a value of its column's type.
    """
    typed: dict[str, PartitionValue] = {}
    for name in state.partition_columns:
        field = state.schema.select([name]).fields[0]
        text = values.get(state.physical_name(name))
        try:
            typed[name] = partition_values.parse(text, field.data_type)
        except ValueError as error:
            raise CorruptTableError(
                f"The log of {state.table} gives {text!r} as value of partition column {name!r} "
                f"({field.data_type}) for file {file}: {error}.",
                table=state.table,
                file=file,
            ) from error
    return typed


def _streams(
    engine: Engine, work: Rewrite, memory_bytes: int
) -> Iterator[CloseableIterator[pa.RecordBatch]]:
    """The rows of each new file, as the table has them; each is read to its end before the next."""
    if work.order is None:
        yield read_in_order(engine, work.scan_state, work.files)
        return
    with ordered_rows(
        engine, work.scan_state, work.files, work.order, memory_bytes=memory_bytes
    ) as rows:
        yield from rows.cut(work.num_files)


def _written(
    engine: Engine, work: Rewrite, rows: CloseableIterator[pa.RecordBatch]
) -> Iterator[AddFile]:
    first = work.files[0]
    texts = {work.partition_names.get(k, k): v for k, v in first.partition_values.items()}
    values: Any = typed_partition_values(work.state, texts, first.path)
    context = get_write_context(work.state, values)
    local = zoneless_texts(work.state, texts)
    if local:
        context = write_context(work.state, {**context.partition_values, **local})
    with _physical(work, rows) as batches:
        statuses = engine.parquet.write_parquet_files(
            context.target_directory,
            batches,
            tuple(dict.fromkeys((*context.statistics_columns, *work.statistics_columns))),
            replace(context.options, target_file_size=_ONE_FILE),
        )
        with generate_append_actions(work.state, statuses, context) as adds:
            for add in adds:
                yield msgspec.structs.replace(
                    add,
                    data_change=False,
                    tags=None if work.tags is None else dict(work.tags),
                    clustering_provider=work.clustering_provider,
                )


@closeable
def _physical(work: Rewrite, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as data files have them, row ids and commit versions in their own columns."""
    names = [f.name for f in work.state.data_schema]
    fields = list(work.state.physical_schema)
    for stored, column in zip(
        work.scan_state.row_tracking or (), (ROW_ID, ROW_COMMIT_VERSION), strict=False
    ):
        if stored and column in work.scan_state.metadata_columns:
            names.append(column)
            fields.append(pa.field(stored, pa.int64()))
    schema = pa.schema(fields)
    with CloseableIterator(rows) as batches:
        for batch in batches:
            data = with_bytes_in_nulls(batch.select(names), work.state.data_schema)
            yield relabelled(data, schema, table=work.state.table)
