"""Writing of checkpoints and the checkpoint hint (PROTOCOL.md, Checkpoints, Last Checkpoint File).

A checkpoint follows the V2 spec if the table property `delta.checkpointPolicy` is `v2`, else V1.
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
from bayou.kernel.checkpoint.state_files import base_checkpoint
from bayou.kernel.checkpoint.write_v2 import write_v2_checkpoint
from bayou.kernel.crc.read import FileTotals, checksum_totals, compare_totals, read_checksum
from bayou.kernel.crc.write import checksum_from_state, put_checksum
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


def finish_checkpoint(
    engine: Engine, state: TableState, hint: LastCheckpoint, totals: FileTotals
) -> None:
    """Write the checkpoint hint (`_last_checkpoint`).

    All files of the checkpoint must already be written. Also write the version checksum if it is
    missing. If an existing checksum and `totals` differ, log a warning.

    Args:
        hint: contents of `_last_checkpoint`.
        totals: number and total size of the live files in the checkpoint.
    """
    _write_hint(engine, state.path, hint)
    segment = state.log_segment
    in_checksum = None
    latest = state.replay_state.commit_info
    if segment.checksum is not None:
        in_checksum = checksum_totals(segment, read_checksum(engine, segment, latest))
    compare_totals(state.path, state.version, in_checksum, totals)
    if segment.checksum is None or segment.checksum.version != state.version:
        txn_id = None if latest is None else latest.string("txnId")
        checksum = checksum_from_state(state, totals.files, totals.size, txn_id=txn_id)
        put_checksum(engine, state.path, state.version, checksum)


def _write_hint(engine: Engine, table: str, hint: LastCheckpoint) -> None:
    """Write `_last_checkpoint`. If the file references a newer, complete checkpoint, keep it."""
    path = f"{log_path(table)}/{LAST_CHECKPOINT}"
    try:
        data = bytes(next(iter(engine.files.read_files([ByteRange(path=path)]))))
    except FileMissingError:
        existing = None
    else:
        existing = last_checkpoint.parse(data)
    if existing is not None and existing.version > hint.version:
        listing = engine.files.list_from(f"{log_path(table)}/{list_prefix(existing.version)}")
        if any(c.version == existing.version for c in complete_checkpoints(listing)):
            return
    engine.files.put(path, last_checkpoint.encode(hint))


def checkpoint(
    engine: Engine, table: str, version: int | None = None, catalog: Catalog | None = None
) -> int:
    """Write the checkpoint of a version, by default the latest, and the checkpoint hint.

    Idempotent and safe with concurrent writers: files are written atomically, and every writer
    writes the same contents. At most one row group of the checkpoint is in memory. If the
    version checksum is missing, it is written. If the number or the total size of the live files
    differs between an existing checksum and the checkpoint, a warning is logged.

    Returns:
        The version of the checkpoint.
    """
    return write_checkpoint(engine, load_for_checkpoint(engine, table, version, catalog))


def write_checkpoint(engine: Engine, state: TableState) -> int:
    """Write the checkpoint of a state that `load_for_checkpoint` returned; see `checkpoint`."""
    layout = CheckpointFormat.of(state.schema, state.partition_columns, state.properties)
    counts = RowCounts()
    batches = counts.count(checkpoint_rows(engine, state, layout))
    if state.table_properties.checkpoint_policy == "v2":
        status = write_v2_checkpoint(engine, state.path, state.version, layout, batches)
    else:
        path = f"{log_path(state.path)}/{checkpoint_file_name(state.version)}"
        status = engine.parquet.write_parquet_file_atomically(path, layout.schema, batches)
    hint = LastCheckpoint(
        version=state.version,
        size=counts.actions,
        size_in_bytes=status.size,
        num_of_add_files=counts.adds,
    )
    finish_checkpoint(engine, state, hint, FileTotals(counts.adds, counts.bytes))
    return state.version


def load_for_checkpoint(
    engine: Engine, table: str, version: int | None, catalog: Catalog | None = None
) -> TableState:
    """Load a version in order to write its checkpoint.

    Raises:
        ArgumentError: the commit of this version, or an earlier commit, is ratified but not yet
            published (PROTOCOL.md, Maintenance Operations on Catalog-managed Tables).
        UnsupportedFeatureError: the table has an unknown feature, which may require additional
            actions in checkpoints.
        TablePropertyError: a property of checkpoints has an invalid value.
    """
    state = load_table_state(engine, table, version, catalog=catalog)
    unpublished = _first_unpublished(engine, state)
    if unpublished is not None:
        raise ArgumentError(
            f"{state.path}: the checkpoint of version {state.version} can't be written, because "
            f"the commit of version {unpublished} is ratified but not published. Publish the "
            "commit first with Table.publish_commits.",
            argument="version",
        )
    table_features = features.all_features(state.protocol)
    unknown = [name for name in table_features if name not in features.FEATURES]
    if unknown:
        raise UnsupportedFeatureError(
            f"{state.path}: this version of Bayou can't write checkpoints of the table, because "
            f"it doesn't know the table features {', '.join(unknown)}. These features may add "
            "actions to checkpoints. Write the checkpoint with a newer version of Bayou, or with "
            "delta-spark.",
            table=state.path,
            features=unknown,
        )
    for table_property in (
        properties.CHECKPOINT_POLICY,
        properties.CHECKPOINT_STATS_AS_JSON,
        properties.CHECKPOINT_STATS_AS_STRUCT,
        properties.DELETED_FILE_RETENTION,
        properties.SKIPPING_COLUMN_COUNT,
        properties.SKIPPING_COLUMNS,
        properties.TRANSACTION_RETENTION,
    ):
        try:
            table_property.read(state.properties)
        except PropertyValueError as error:
            raise TablePropertyError(
                f"{state.path}: {error}.", table=state.path, key=error.key
            ) from error
    return state


def checkpoint_rows(
    engine: Engine, state: TableState, layout: CheckpointFormat
) -> Iterator[pa.RecordBatch]:
    """Yield all actions of a version's checkpoint, as rows with the columns `layout.schema`."""
    now = time.time_ns() // 1_000_000
    tombstone_cutoff = now - state.table_properties.deleted_file_retention_ms
    yield from metadata_rows(state, layout, now)
    previous = base_checkpoint(engine, state)
    seen_keys = state.replay_state.seen_keys
    for file in () if previous is None else previous.files:
        split = FileSplit(path=file.path, size=file.size)
        yield from part_rows(
            engine,
            state.path,
            split,
            layout,
            seen_keys=seen_keys,
            tombstone_cutoff=tombstone_cutoff,
        )
    yield from tail_rows(engine, state, previous, layout, tombstone_cutoff)


def _first_unpublished(engine: Engine, state: TableState) -> int | None:
    """Return the first version after the previous checkpoint whose commit isn't published.

    The result is None if all commits are published. The catalog may still list published commits,
    so the commit files in `_delta_log` are checked.
    """
    first = state.version - len(state.log_segment.commits) + 1
    for version, commit in enumerate(state.log_segment.commits, first):
        if isinstance(commit, InlineCommit) or f"/{STAGED_COMMIT_DIRECTORY}/" in commit.path:
            try:
                engine.files.status(f"{log_path(state.path)}/{commit_file_name(version)}")
            except FileMissingError:
                return version
    return None
