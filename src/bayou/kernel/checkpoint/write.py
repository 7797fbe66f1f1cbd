"""Writing checkpoints (PROTOCOL.md, Checkpoints): by the V2 spec where the table asks, else V1.

Pointing to a checkpoint that was written (PROTOCOL.md, Last Checkpoint File).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from bayou.errors import (
    ArgumentError,
    FileMissingError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel.catalog import Catalog, InlineCommit
from bayou.kernel.checkpoint.format import CheckpointFormat
from bayou.kernel.checkpoint.rows import RowCounts, metadata_rows, part_rows, tail_rows
from bayou.kernel.checkpoint.state_files import checkpoint_behind
from bayou.kernel.checkpoint.v2 import write_v2_checkpoint
from bayou.kernel.crc.read import FileTotals, compare_totals, read_checksum, stated_totals
from bayou.kernel.crc.write import put_checksum, state_checksum
from bayou.kernel.engine import ByteRange, Engine, FileSplit
from bayou.kernel.log.segment import complete_checkpoints, log_path
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.protocol import features, last_checkpoint, properties
from bayou.protocol.file_names import (
    LAST_CHECKPOINT,
    STAGED_COMMIT_DIRECTORY,
    checkpoint_file_name,
    commit_file_name,
    list_prefix,
)
from bayou.protocol.last_checkpoint import LastCheckpoint
from bayou.protocol.property_strings import PropertyValueError

__all__ = [
    "checkpoint",
    "checkpoint_rows",
    "finish_checkpoint",
    "load_for_checkpoint",
    "write_checkpoint",
]


def finish_checkpoint(
    engine: Engine, state: TableState, pointer: LastCheckpoint, counted: FileTotals
) -> None:
    """Point to a complete checkpoint, and compare its files with the version's checksum.

    A version without one gets it: everything was counted anyway.
    """
    _point_to(engine, state.path, pointer)
    segment = state.log_segment
    stated = None
    latest = state.replay_state.commit_info
    if segment.checksum is not None:
        stated = stated_totals(segment, read_checksum(engine, segment, latest))
    compare_totals(state.path, state.version, stated, counted)
    if segment.checksum is None or segment.checksum.version != state.version:
        txn_id = None if latest is None else latest.string("txnId")
        checksum = state_checksum(
            state,
            counted.files,
            counted.size,
            txn_id=txn_id,
        )
        put_checksum(engine, state.path, state.version, checksum)


def _point_to(engine: Engine, table: str, pointer: LastCheckpoint) -> None:
    """Write `_last_checkpoint`, unless it names a newer one that is there."""
    path = f"{log_path(table)}/{LAST_CHECKPOINT}"
    try:
        data = bytes(next(iter(engine.files.read_files([ByteRange(path=path)]))))
    except FileMissingError:
        existing = None
    else:
        existing = last_checkpoint.parse(data)
    if existing is not None and existing.version > pointer.version:
        listing = engine.files.list_from(f"{log_path(table)}/{list_prefix(existing.version)}")
        if any(c.version == existing.version for c in complete_checkpoints(listing)):
            return
    engine.files.put(path, last_checkpoint.encode(pointer))


def checkpoint(
    engine: Engine, table: str, version: int | None = None, catalog: Catalog | None = None
) -> int:
    """Write the checkpoint of a version, the latest where it is None, and point to it.

    Repeatable, safe beside other writers: the file is put whole, with the same contents whoever
    writes it. Memory is bounded by a row group of the checkpoint. A version checksum that counts
    the files otherwise is logged as a warning; a version without one gets it.

    Args:
        catalog: the one that manages the table, if any.

    Returns:
        The version.

    Raises:
        VersionNotFoundError, TableNotFoundError, CorruptTableError: the version can't be rebuilt.
        UnsupportedFeatureError: the table has a feature that isn't known, so that the checkpoint
            might lack something.
        TablePropertyError: a property of checkpoints that can't be read.
        ArgumentError: a version of a managed table that isn't published (PROTOCOL.md, Maintenance
            Operations on Catalog-managed Tables).
    """
    return write_checkpoint(engine, load_for_checkpoint(engine, table, version, catalog))


def write_checkpoint(engine: Engine, state: TableState) -> int:
    """The checkpoint of a version that `load_for_checkpoint` gave; see `checkpoint`."""
    layout = CheckpointFormat.of(state.schema, state.partition_columns, state.properties)
    counts = RowCounts()
    batches = counts.count(checkpoint_rows(engine, state, layout))
    if state.table_properties.checkpoint_policy == "v2":
        status = write_v2_checkpoint(engine, state.path, state.version, layout, batches)
    else:
        path = f"{log_path(state.path)}/{checkpoint_file_name(state.version)}"
        status = engine.parquet.write_parquet_file_atomically(path, layout.schema, batches)
    pointer = LastCheckpoint(
        version=state.version,
        size=counts.actions,
        size_in_bytes=status.size,
        num_of_add_files=counts.adds,
    )
    finish_checkpoint(engine, state, pointer, FileTotals(counts.adds, counts.bytes))
    return state.version


def load_for_checkpoint(
    engine: Engine, table: str, version: int | None, catalog: Catalog | None = None
) -> TableState:
    """A version whose checkpoint can be written.

    Raises:
        BayouError: see `checkpoint`.
    """
    state = load_table_state(engine, table, version, catalog=catalog)
    unpublished = _first_unpublished(engine, state)
    if unpublished is not None:
        raise ArgumentError(
            f"Version {state.version} of {state.path} can't have a checkpoint yet: version "
            f"{unpublished} is ratified by the catalog, and not published. Publish it first "
            "(Table.publish_commits).",
            argument="version",
        )
    named = features.all_features(state.protocol)
    unknown = [name for name in named if name not in features.FEATURES]
    if unknown:
        raise UnsupportedFeatureError(
            f"The checkpoint of {state.path} can't be written: the table has {', '.join(unknown)}, "
            "which this version of Bayou doesn't know, and may have actions that belong in it. "
            "Write it with a newer version, or with delta-spark.",
            table=state.path,
            features=unknown,
        )
    for known in (
        properties.CHECKPOINT_POLICY,
        properties.CHECKPOINT_STATS_AS_JSON,
        properties.CHECKPOINT_STATS_AS_STRUCT,
        properties.DELETED_FILE_RETENTION,
        properties.SKIPPING_COLUMN_COUNT,
        properties.SKIPPING_COLUMNS,
        properties.TRANSACTION_RETENTION,
    ):
        try:
            known.read(state.properties)
        except PropertyValueError as error:
            raise TablePropertyError(
                f"{state.path}: {error}.", table=state.path, key=error.key
            ) from error
    return state


def checkpoint_rows(
    engine: Engine, state: TableState, layout: CheckpointFormat
) -> Iterator[pa.RecordBatch]:
    """Everything that the checkpoint of a version holds, by the V1 spec, in `layout.schema`."""
    now = time.time_ns() // 1_000_000
    expired = now - state.table_properties.deleted_file_retention_ms
    yield from metadata_rows(state, layout, now)
    behind = checkpoint_behind(engine, state)
    touched = state.replay_state.touched
    for file in () if behind is None else behind.files:
        split = FileSplit(path=file.path, size=file.size)
        yield from part_rows(engine, state.path, split, layout, touched=touched, expired=expired)
    yield from tail_rows(engine, state, behind, layout, expired)


def _first_unpublished(engine: Engine, state: TableState) -> int | None:
    """The first commit that only the catalog has; it may list published ones, too."""
    first = state.version - len(state.log_segment.commits) + 1
    for version, commit in enumerate(state.log_segment.commits, first):
        if isinstance(commit, InlineCommit) or f"/{STAGED_COMMIT_DIRECTORY}/" in commit.path:
            try:
                engine.files.status(f"{log_path(state.path)}/{commit_file_name(version)}")
            except FileMissingError:
                return version
    return None
