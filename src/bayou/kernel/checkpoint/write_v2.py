"""Writing of V2 checkpoints: file actions are in sidecars (PROTOCOL.md, V2 Spec)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from bayou.kernel.checkpoint.format import CheckpointFormat
from bayou.kernel.checkpoint.schema import CHECKPOINT_SCHEMA, METADATA_SCHEMA, SIDECAR_SCHEMA
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.segment import log_path
from bayou.protocol.file_names import SIDECAR_DIRECTORY, checkpoint_file_name

_FILES = ("add", "remove")
# The top-level file has no file actions, but delta-spark requires their columns.
_TOP = pa.schema([*CHECKPOINT_SCHEMA, *SIDECAR_SCHEMA])
_MAX_SIDECAR_ROWS = 1_000_000


def write_v2_checkpoint(
    engine: Engine,
    table: str,
    version: int,
    layout: CheckpointFormat,
    batches: Iterable[pa.RecordBatch],
) -> FileStatus:
    """Write sidecars of about a million rows each, then the top-level file.

    File names are unique, so concurrent writers of a version don't conflict. A writer that fails
    leaves sidecars, which log cleanup deletes. Return the status of the top-level file. Its `size`
    is the total size of the top-level file and the sidecars.

    Args:
        batches: the checkpoint's actions with `layout.schema`, one kind of action per batch.
    """
    non_file_actions: list[pa.RecordBatch] = []
    sidecars: list[FileStatus] = []
    files = _split_files(batches, non_file_actions)
    schema = layout.file_schema
    first = next(files, None)
    while first is not None:
        sidecar = _SidecarBatches(first, files)
        path = sidecar_path(table)
        sidecars.append(engine.parquet.write_parquet_file_atomically(path, schema, sidecar))
        first = sidecar.following
    return write_top_file(engine, table, version, non_file_actions, sidecars)


def sidecar_path(table: str) -> str:
    """Return a unique path for a new sidecar of a table."""
    return f"{log_path(table)}/{SIDECAR_DIRECTORY}/{uuid.uuid4()}.parquet"


def write_top_file(
    engine: Engine,
    table: str,
    version: int,
    non_file_actions: Sequence[pa.RecordBatch],
    sidecars: Sequence[FileStatus],
    *,
    path: str | None = None,
) -> FileStatus:
    """Write the top-level file, which references the sidecars and completes the checkpoint.

    Return the status of the top-level file. Its `size` is the total size of the top-level file and
    the sidecars.

    Args:
        non_file_actions: the non-file actions with the columns of `METADATA_SCHEMA`.
        path: path of the file. If None, the file gets a unique name.
    """
    top = path or f"{log_path(table)}/{checkpoint_file_name(version, str(uuid.uuid4()))}"
    status = engine.parquet.write_parquet_file_atomically(
        top, _TOP, _top_batches(version, non_file_actions, sidecars)
    )
    return FileStatus(
        path=status.path,
        size=status.size + sum(s.size for s in sidecars),
        modification_time=status.modification_time,
    )


class _SidecarBatches:
    """Iterates the batches of one sidecar.

    After the iteration, `following` is the first batch of the next sidecar, or None.
    """

    def __init__(self, first: pa.RecordBatch, files: Iterator[pa.RecordBatch]) -> None:
        self.following: pa.RecordBatch | None = first
        self._files = files

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        while self.following is not None and rows < _MAX_SIDECAR_ROWS:
            rows += self.following.num_rows
            yield self.following
            self.following = next(self._files, None)


def _split_files(
    batches: Iterable[pa.RecordBatch], non_file_actions: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if all(batch.column(n).null_count == batch.num_rows for n in _FILES):
            non_file_actions.append(batch.select(METADATA_SCHEMA.names))
        else:
            yield batch.select(list(_FILES))


def _top_batches(
    version: int, non_file_actions: Sequence[pa.RecordBatch], sidecars: Sequence[FileStatus]
) -> Iterator[pa.RecordBatch]:
    yield _top_batch({"checkpointMetadata": [{"version": version}]}, 1)
    for batch in non_file_actions:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield _top_batch(columns, batch.num_rows)
    if sidecars:
        references = [
            {
                "path": s.path.rsplit("/", 1)[-1],
                "sizeInBytes": s.size,
                "modificationTime": s.modification_time,
            }
            for s in sidecars
        ]
        yield _top_batch({"sidecar": references}, len(references))


def _top_batch(columns: dict[str, Any], rows: int) -> pa.RecordBatch:
    arrays = []
    for field in _TOP:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(rows, field.type))
        else:
            array = values if isinstance(values, pa.Array) else pa.array(values, field.type)
            arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=_TOP)
