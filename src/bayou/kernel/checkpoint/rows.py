"""Yields the rows of a checkpoint in batches, and counts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.checkpoint.format import CheckpointFormat
from bayou.kernel.checkpoint.read import CheckpointContents
from bayou.kernel.checkpoint.schema import METADATA_SCHEMA, actions_to_array
from bayou.kernel.checkpoint.state_files import (
    checkpoint_adds,
    checkpoint_tombstones,
    tail_tombstones,
)
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.log.file_action_keys import FileActionKeys
from bayou.kernel.log.table_state import TableState
from bayou.protocol.actions import Action


class RowCounts:
    """Counts of written actions.

    Attributes:
        actions: number of all actions.
        adds: number of `add` actions.
        bytes: total size of the files in the `add` actions.
    """

    def __init__(self) -> None:
        self.actions = 0
        self.adds = 0
        self.bytes = 0

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches unchanged, and add their actions to the counts."""
        for batch in batches:
            self.actions += batch.num_rows
            adds: Any = batch.column("add")
            self.adds += batch.num_rows - adds.null_count
            self.bytes += pc.sum(pc.struct_field(adds, "size")).as_py() or 0
            yield batch


def metadata_rows(
    state: TableState, layout: CheckpointFormat, now: int
) -> Iterator[pa.RecordBatch]:
    """Yield the non-file actions: protocol, metadata, transaction identifiers, domain metadata.

    Transaction identifiers that have expired at `now` (ms since the epoch) are omitted.
    """
    retention = state.table_properties.transaction_retention_ms
    transactions = [
        t
        for t in state.transaction_actions.values()
        if retention is None or t.last_updated is None or t.last_updated > now - retention
    ]
    domains = [d for d in state.domain_actions.values() if not d.removed]
    kinds: dict[str, list[Action]] = {
        "protocol": [state.protocol],
        "metaData": [state.metadata],
        "txn": [*transactions],
        "domainMetadata": [*domains],
    }
    for name in METADATA_SCHEMA.names:
        if kinds[name]:
            yield layout.batch(name, actions_to_array(name, kinds[name]))


def tail_rows(
    engine: Engine,
    state: TableState,
    base_checkpoint: CheckpointContents | None,
    layout: CheckpointFormat,
    tombstone_cutoff: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the file actions that aren't in the Parquet files of the previous checkpoint.

    These are the file actions of the commits after the previous checkpoint, and the file actions
    of a previous checkpoint in JSON.

    Args:
        tombstone_cutoff: time in ms since the epoch; tombstones with this or an earlier
            `deletionTimestamp` are omitted.
    """
    for adds in state.tail:
        if len(adds):
            yield layout.batch("add", layout.adds(engine, CheckpointAdds(adds)))
    for removes in tail_tombstones(state, base_checkpoint):
        yield from _tombstones(layout, removes, tombstone_cutoff)


def part_rows(
    engine: Engine,
    table: str,
    split: FileSplit,
    layout: CheckpointFormat,
    *,
    seen_keys: FileActionKeys,
    tombstone_cutoff: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the file actions in a range of row groups of the previous checkpoint.

    Args:
        split: the row groups to read.
        seen_keys: log-replay keys (path and deletion vector id) of the files added or removed by
            later commits; these files are omitted.
        tombstone_cutoff: time in ms since the epoch; tombstones with this or an earlier
            `deletionTimestamp` are omitted.
    """
    for files in checkpoint_adds(
        engine, table, split, seen_keys, columns=layout.columns, parsed=layout.source_type
    ):
        yield layout.batch("add", layout.adds(engine, files))
    for removes in checkpoint_tombstones(engine, table, split, seen_keys):
        yield from _tombstones(layout, removes, tombstone_cutoff)


def _tombstones(
    layout: CheckpointFormat, removes: pa.StructArray, tombstone_cutoff: int
) -> Iterator[pa.RecordBatch]:
    times = pc.fill_null(pc.struct_field(removes, "deletionTimestamp"), 0)
    unexpired = removes.filter(pc.greater(times, tombstone_cutoff))
    if len(unexpired):
        yield layout.batch("remove", unexpired)
