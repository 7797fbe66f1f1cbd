"""Writing change data files: rows with their change types (PROTOCOL.md, Change Data Files)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.data_writer.data_writer import to_physical_batch, write_context
from bayou.kernel.data_writer.partition_files import BufferedRows, PartitionBuffers
from bayou.kernel.data_writer.partitioner import PartitionKey, PartitionSplitter, split_batch
from bayou.kernel.engine import Engine
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.actions import CHANGE_TYPE, AddCDCFile, ChangeType
from bayou.protocol.file_names import CHANGE_DATA_DIRECTORY, data_file_path_to_uri

_BUFFERED_BYTES = 64 * 1024 * 1024
_ADDITIONAL_COLUMNS = {CHANGE_TYPE: CHANGE_TYPE}


class ChangeDataFiles:
    """Writes changed rows to `_change_data/`, split by partition. Not thread-safe.

    Rows are buffered by partition: up to 64 MB in memory, and further rows on the local disk.
    """

    def __init__(self, engine: Engine, state: TransactionState) -> None:
        self._engine = engine
        self._state = state
        self._splitter = PartitionSplitter(state, tuple(_ADDITIONAL_COLUMNS))
        file_bytes = 2 * state.parquet_options.target_file_size if state.partition_columns else 0
        self._buffers = PartitionBuffers(_BUFFERED_BYTES, file_bytes)
        self.actions: list[AddCDCFile] = []

    def add(self, rows: pa.RecordBatch, change_type: ChangeType) -> None:
        """Buffer changed rows. Columns that the table doesn't have are ignored."""
        if rows.num_rows == 0:
            return
        names = self._state.schema.names
        types = pa.repeat(to_scalar(change_type, pa.string()), rows.num_rows)
        batch = rows.select(names).append_column(CHANGE_TYPE, types)
        for piece in split_batch(batch):
            self._buffers.add(self._splitter.split(piece))
        for key, buffered in self._buffers.pop_full():
            self._write(key, buffered)

    def finish(self) -> None:
        """Write all buffered rows."""
        for key, buffered in self._buffers.pop_all():
            self._write(key, buffered)

    def _write(self, key: PartitionKey, rows: BufferedRows) -> None:
        state = self._state
        context = write_context(state, state.partition_values(key))
        partition_folder = context.target_directory.removeprefix(state.table).lstrip("/")
        directory = "/".join(filter(None, (state.table, CHANGE_DATA_DIRECTORY, partition_folder)))
        statuses = self._engine.parquet.write_parquet_files(
            directory,
            (
                to_physical_batch(state, batch, _ADDITIONAL_COLUMNS)
                for batch in rows.combined_batches()
            ),
            (),
            replace(context.options, name_prefix="cdc"),
        )
        for status in statuses:
            relative = status.path.removeprefix(f"{state.table}/")
            self.actions.append(
                AddCDCFile(
                    path=data_file_path_to_uri(relative),
                    partition_values=dict(context.partition_values),
                    size=status.size,
                )
            )
