"""Buckets of rows for sorting the rows of a rewrite.

Rows are sorted by their position on a space-filling curve. A bucket contains a range of positions.
Buckets are spilled to the local disk if they exceed the available memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa

from bayou.errors import StorageError
from bayou.kernel.arrow.compute import pc

_POSITION = "position"
"""Column of `GroupedRows.rows` with the rows' positions on the space-filling curve."""


class GroupedRows(NamedTuple):
    """The rows of a batch, sorted by bucket number.

    Attributes:
        rows: the rows. The last column contains the positions on the space-filling curve.
        buckets: bucket numbers that occur in the batch, ascending.
        ends: end index in `rows` (exclusive) of each bucket in `buckets`.
    """

    rows: pa.RecordBatch
    buckets: list[int]
    ends: list[int]


def group_rows(
    batch: pa.RecordBatch, positions: pa.Array[Any], buckets: pa.Array[Any]
) -> GroupedRows:
    """Group the rows of a batch by bucket.

    Args:
        positions: the position of each row on the space-filling curve (`RowPositions.of`).
        buckets: the bucket number of each row.
    """
    rows = pa.RecordBatch.from_arrays(
        [*batch.columns, positions],
        schema=batch.schema.append(pa.field(_POSITION, positions.type)),
    )
    order = pc.array_sort_indices(buckets)
    runs = pc.run_end_encode(buckets.take(order))
    ends = runs.run_ends.to_pylist()
    if len(ends) > 1:
        rows = rows.take(order)
    return GroupedRows(rows, runs.values.to_pylist(), ends)


class RowBuckets:
    """Rows and their positions on a space-filling curve, grouped by bucket number.

    Args:
        memory_bytes: memory for buffered rows. Rows that exceed it are spilled to a temporary
            folder (`tempfile`). `close` deletes the folder.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._limit = memory_bytes // 2
        self._buffered: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
        self._bytes = 0
        self._folder: Path | None = None
        self._files: dict[int, tuple[pa.OSFile, pa.RecordBatchStreamWriter]] = {}
        self._schema: pa.Schema | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, rows: GroupedRows) -> None:
        """Add the rows of a batch. All batches must have the same schema."""
        if self._schema is None:
            self._schema = rows.rows.schema.remove(rows.rows.num_columns - 1)
        start = 0
        for number, end in zip(rows.buckets, rows.ends, strict=True):
            self._buffered[number].append(rows.rows.slice(start, end - start))
            start = end
        self._bytes += rows.rows.nbytes
        if self._bytes > self._limit:
            self._spill()

    def take(self, number: int) -> tuple[pa.Table, pa.ChunkedArray[Any]]:
        """Remove and return the rows of bucket `number`.

        The second result contains the positions of the rows on the space-filling curve.
        """
        parts: list[pa.RecordBatch] = []
        if number in self._files:
            parts += self._from_disk(number)
        parts += self._buffered.pop(number, [])
        if not parts:
            schema = self._schema or pa.schema([])
            return schema.empty_table(), pa.chunked_array([], pa.int64())
        table = pa.Table.from_batches(parts)
        last = table.num_columns - 1  # by index, because a table column may have the same name
        return table.remove_column(last), table.column(last)

    def close(self) -> None:
        self._buffered.clear()
        files, self._files = self._files, {}
        for sink, _ in files.values():
            sink.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="bayou-rows-"))
        try:
            for number, batches in self._buffered.items():
                if number not in self._files:
                    sink = pa.OSFile(str(self._folder / f"{number}.arrow"), "wb")
                    options = pa.ipc.IpcWriteOptions(compression="lz4")
                    writer = pa.ipc.new_stream(sink, batches[0].schema, options=options)
                    self._files[number] = sink, writer
                merged = pa.Table.from_batches(batches).combine_chunks()
                self._files[number][1].write_table(merged)
        except OSError as error:
            raise _spill_error(self._folder, error) from error
        self._buffered.clear()
        self._bytes = 0

    def _from_disk(self, number: int) -> list[pa.RecordBatch]:
        assert self._folder is not None  # the bucket has a file
        sink, writer = self._files.pop(number)
        path = self._folder / f"{number}.arrow"
        try:
            writer.close()
            sink.close()
            with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as stream:
                batches = list(stream)
            path.unlink()
        except OSError as error:
            raise _spill_error(self._folder, error) from error
        return batches


def _spill_error(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{folder}: the rows to sort don't fit into memory and can't be written to temporary "
        f"files: {error}. Free disk space, or set TMPDIR to another folder.",
        path=str(folder),
    )
