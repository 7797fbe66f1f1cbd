"""Writing checkpoints (PROTOCOL.md, Checkpoints): by the V2 spec where the table asks, else V1."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import (
    FileMissingError,
    StorageError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel.checkpoint_contents import (
    CheckpointContents,
    locate_checkpoint_files,
    unreadable_checkpoint,
)
from bayou.kernel.checkpoint_schema import (
    CHECKPOINT_SCHEMA,
    REMOVE_TYPE,
    actions_to_array,
    checkpoint_batch,
    removes_to_array,
)
from bayou.kernel.checksum import FileTotals, compare_totals, read_checksum, stated_totals
from bayou.kernel.column_mapping import to_physical_schema
from bayou.kernel.engine import ByteRange, Engine, FileSplit
from bayou.kernel.log_segment import log_path
from bayou.kernel.parsed_stats import full_stats_type
from bayou.kernel.scan_file import ADD_TYPE
from bayou.kernel.slices import replay_checkpoint_adds
from bayou.kernel.table_state import TableState, load_table_state
from bayou.kernel.upkeep.v2_checkpoint import write_v2_checkpoint
from bayou.protocol import last_checkpoint, properties
from bayou.protocol.file_names import LAST_CHECKPOINT, checkpoint_file_name

__all__ = ["checkpoint"]

pc: Any = pyarrow.compute


def checkpoint(engine: Engine, table: str, version: int | None = None) -> int:
    """Write the checkpoint of a version, the latest where it is None, and point to it.

    Repeatable, safe beside other writers: the file is put whole, with the same contents whoever
    writes it. Memory is bounded by a batch of the log. A version checksum that counts the files
    otherwise is logged as a warning.

    Returns:
        The version.

    Raises:
        VersionNotFoundError, TableNotFoundError, CorruptTableError: the version can't be rebuilt.
        UnsupportedFeatureError: the table wants statistics in struct form only.
        TablePropertyError: a retention that can't be read.
    """
    state = load_table_state(engine, table, version)
    _check_properties(state)
    if not state.table_properties.write_stats_as_json:
        raise UnsupportedFeatureError(
            f"{table} wants checkpoints without JSON statistics "
            "(delta.checkpoint.writeStatsAsJson is false), which this version of Bayou doesn't "
            "write.",
            table=table,
            features=["delta.checkpoint.writeStatsAsJson=false"],
        )
    counts = _Counts()
    batches = counts.count(_batches(engine, state))
    if state.table_properties.checkpoint_policy == "v2":
        status = write_v2_checkpoint(engine, state.path, state.version, batches)
    else:
        path = f"{log_path(state.path)}/{checkpoint_file_name(state.version)}"
        status = engine.parquet.write_parquet_file_atomically(path, CHECKPOINT_SCHEMA, batches)
    pointer = last_checkpoint.LastCheckpoint(
        version=state.version,
        size=counts.actions,
        size_in_bytes=status.size,
        num_of_add_files=counts.adds,
    )
    _point_to(engine, state.path, pointer)
    if state.log_segment.checksum is not None:
        stated = stated_totals(state.log_segment, read_checksum(engine, state.log_segment))
        counted = FileTotals(counts.adds, counts.bytes)
        compare_totals(state.path, state.version, stated, counted)
    return state.version


def _check_properties(state: TableState) -> None:
    for known in (
        properties.CHECKPOINT_POLICY,
        properties.CHECKPOINT_STATS_AS_JSON,
        properties.DELETED_FILE_RETENTION,
        properties.TRANSACTION_RETENTION,
    ):
        try:
            known.read(state.properties)
        except properties.PropertyValueError as error:
            raise TablePropertyError(
                f"{state.path}: {error}.", table=state.path, key=error.key
            ) from error


class _Counts:
    """What went by: actions in all, and adds."""

    def __init__(self) -> None:
        self.actions = 0
        self.adds = 0
        self.bytes = 0  # of the files added

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.actions += batch.num_rows
            adds: Any = batch.column("add")
            self.adds += batch.num_rows - adds.null_count
            self.bytes += pc.sum(pc.struct_field(adds, "size")).as_py() or 0
            yield batch


def _batches(engine: Engine, state: TableState) -> Iterator[pa.RecordBatch]:
    now = time.time_ns() // 1_000_000
    yield from _metadata_batches(state, now)
    previous = _previous(engine, state)
    for adds in _live_adds(engine, state, previous):
        yield checkpoint_batch("add", _without_data_change(adds))
    expired = now - state.table_properties.deleted_file_retention_ms
    for removes in _tombstones(engine, state, previous):
        kept = removes.filter(
            pc.greater(pc.fill_null(pc.struct_field(removes, "deletionTimestamp"), 0), expired)
        )
        if len(kept):
            yield checkpoint_batch("remove", kept)


def _metadata_batches(state: TableState, now: int) -> Iterator[pa.RecordBatch]:
    yield checkpoint_batch("protocol", actions_to_array("protocol", [state.protocol]))
    yield checkpoint_batch("metaData", actions_to_array("metaData", [state.metadata]))
    retention = state.table_properties.transaction_retention_ms
    transactions = [
        t
        for t in state.transaction_actions.values()
        if retention is None or t.last_updated is None or t.last_updated > now - retention
    ]
    if transactions:
        yield checkpoint_batch("txn", actions_to_array("txn", transactions))
    domains = [d for d in state.domain_actions.values() if not d.removed]
    if domains:
        yield checkpoint_batch("domainMetadata", actions_to_array("domainMetadata", domains))


def _previous(engine: Engine, state: TableState) -> CheckpointContents | None:
    """The checkpoint behind the state."""
    checkpoint = state.log_segment.checkpoint
    if checkpoint is None:
        return None
    return state.checkpoint_contents or locate_checkpoint_files(engine, state.path, checkpoint)


def _live_adds(
    engine: Engine, state: TableState, previous: CheckpointContents | None
) -> Iterator[pa.StructArray]:
    columns = [f.name for f in ADD_TYPE]
    parsed = full_stats_type(to_physical_schema(state.schema, state.column_mapping))
    for file in () if previous is None else previous.files:
        split = FileSplit(path=file.path, size=file.size)
        for adds, untouched in replay_checkpoint_adds(
            engine, state.path, split, state.replay_state.touched, columns, parsed=parsed
        ):
            yield adds if untouched is None else adds.filter(untouched)
    if len(state.tail):
        yield state.tail


def _tombstones(
    engine: Engine, state: TableState, previous: CheckpointContents | None
) -> Iterator[pa.StructArray]:
    schema = pa.schema([pa.field("remove", REMOVE_TYPE)])
    touched = state.replay_state.touched
    for file in () if previous is None else previous.files:
        split = FileSplit(path=file.path, size=file.size)
        try:
            for batch in engine.parquet.read_parquet_files([split], schema):
                removes: Any = batch.column("remove")
                if removes.null_count == len(removes):
                    continue
                removes = removes.drop_null()
                untouched = touched.untouched(removes)
                yield removes if untouched is None else removes.filter(untouched)
        except StorageError as error:
            raise unreadable_checkpoint(state.path, file.path, error) from error
    if previous is not None and previous.removes:
        own = removes_to_array(previous.removes)
        untouched = touched.untouched(own)
        yield own if untouched is None else own.filter(untouched)
    if state.replay_state.removes:
        yield removes_to_array(state.replay_state.removes)


def _without_data_change(adds: pa.StructArray) -> pa.StructArray:
    """A checkpoint's adds change no data, as delta-spark writes them."""
    columns: list[pa.Array[Any]] = [
        pa.repeat(pa.scalar(False), len(adds)) if f.name == "dataChange" else adds.field(i)
        for i, f in enumerate(ADD_TYPE)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE))


def _point_to(engine: Engine, table: str, pointer: last_checkpoint.LastCheckpoint) -> None:
    """Write `_last_checkpoint`, unless it names a newer one already."""
    path = f"{log_path(table)}/{LAST_CHECKPOINT}"
    try:
        data = bytes(next(iter(engine.files.read_files([ByteRange(path=path)]))))
    except FileMissingError:
        existing = None
    else:
        existing = last_checkpoint.parse(data)
    if existing is None or existing.version <= pointer.version:
        engine.files.put(path, last_checkpoint.encode(pointer))
