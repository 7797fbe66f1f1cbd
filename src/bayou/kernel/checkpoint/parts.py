"""Checkpoints of large tables: several processes write the parts of one checkpoint.

The planning process splits the previous checkpoint into parts. Any process can read, filter and
write a part. The planning process then writes the file actions of the commits after the previous
checkpoint, and completes the new checkpoint.

If the table supports V2 checkpoints, the parts are sidecars with unique names. Otherwise the parts
are files of a multi-part checkpoint, and all writers use the same file names. Two writers may
divide the live files differently. If each writer replaced some files of the other, the checkpoint
would miss or repeat live files. The first writer therefore creates a claim file, which is an
addition of Bayou's. A writer that finds the claim file or a checkpoint file of the version writes a
single-file checkpoint instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import msgspec

from bayou.errors import ArgumentError
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.catalog import Catalog
from bayou.kernel.checkpoint.format import CheckpointFormat
from bayou.kernel.checkpoint.rows import RowCounts, metadata_rows, part_rows, tail_rows
from bayou.kernel.checkpoint.state_files import base_checkpoint
from bayou.kernel.checkpoint.write import finish_checkpoint, load_for_checkpoint, write_checkpoint
from bayou.kernel.checkpoint.write_v2 import sidecar_path, write_top_file
from bayou.kernel.crc.read import FileTotals
from bayou.kernel.engine import Engine, FileSplit, FileStatus
from bayou.kernel.log.file_action_keys import FileActionKeys
from bayou.kernel.log.segment import log_path
from bayou.kernel.log.slices import checkpoint_slices
from bayou.kernel.log.table_state import TableState
from bayou.protocol import features
from bayou.protocol.file_names import multipart_checkpoint_file_name
from bayou.protocol.last_checkpoint import LastCheckpoint
from bayou.protocol.schema import StructType


class WrittenPart(msgspec.Struct, frozen=True, kw_only=True):
    """Result of `write_checkpoint_part`: the written file, and counts of its actions.

    Attributes:
        size: size of the file in bytes.
        actions: number of actions in the file.
        adds: number of `add` actions.
        added_bytes: total size of the files in the `add` actions.
    """

    path: str
    size: int
    modification_time: int
    actions: int
    adds: int
    added_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPart(PickledTask):
    """A task that writes one file of a checkpoint.

    Attributes:
        split: the row groups to read from the previous checkpoint.
        seen_keys: log-replay keys (path and deletion vector id) of the files added or removed
            after the previous checkpoint; these files are omitted.
        schema, partition_columns, configuration: the table's schema, partition columns and table
            properties.
        tombstone_cutoff: time in ms since the epoch; tombstones with this or an earlier
            `deletionTimestamp` are omitted.
        sidecar: whether the file is a sidecar.
    """

    table: str
    path: str
    split: FileSplit
    seen_keys: FileActionKeys
    schema: StructType
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    tombstone_cutoff: int
    sidecar: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """A checkpoint to write in parts.

    Attributes:
        parts: tasks to run with `write_checkpoint_part`, in any order. If `parts` is empty,
            `finish` writes the whole checkpoint. This is the case if the table has no previous
            checkpoint, or if another writer has started the multi-part checkpoint of this version.
        tombstone_cutoff: time in ms since the epoch; tombstones with this or an earlier
            `deletionTimestamp` are omitted.
        sidecars: whether the parts are sidecars of a V2 checkpoint.
        claim: path of the claim file of a multi-part checkpoint, which prevents other processes
            from writing the same files; None if there is no claim file.
    """

    parts: tuple[CheckpointPart, ...]
    state: TableState = field(repr=False)
    tombstone_cutoff: int
    sidecars: bool
    claim: str | None = None

    def finish(self, engine: Engine, written: Iterable[WrittenPart]) -> int:
        """Write the remaining files of the checkpoint and the checkpoint hint; return the version.

        Args:
            written: the results of all `parts`.

        Raises:
            ArgumentError: the result of a part is missing.
        """
        if not self.parts and not self.sidecars:
            return write_checkpoint(engine, self.state)
        by_path = {part.path: part for part in written}
        missing = [part.path for part in self.parts if part.path not in by_path]
        if missing:
            raise ArgumentError(
                f"{self.state.path}: {len(missing)} of {len(self.parts)} parts of the checkpoint "
                f"are missing, for example {missing[0]}. Write all parts first.",
                argument="written",
            )
        parts = [by_path[part.path] for part in self.parts]
        counts = RowCounts()
        finish = _finish_sidecars if self.sidecars else _finish_multi_part
        size = finish(engine, self, parts, counts)
        adds = counts.adds + sum(p.adds for p in parts)
        hint = LastCheckpoint(
            version=self.state.version,
            size=counts.actions + sum(p.actions for p in parts),
            parts=None if self.sidecars or not parts else len(parts) + 1,
            size_in_bytes=size,
            num_of_add_files=adds,
        )
        total = counts.bytes + sum(p.added_bytes for p in parts)
        finish_checkpoint(engine, self.state, hint, FileTotals(adds, total))
        self.release(engine)
        return self.state.version

    def release(self, engine: Engine) -> None:
        """Delete the file `claim`. Call this method if the parts won't be written.

        `finish` calls this method, too. If the process is killed, log cleanup deletes the file.
        """
        if self.claim is not None:
            engine.files.delete_files([self.claim])


def plan_checkpoint(
    engine: Engine,
    table: str,
    version: int | None = None,
    *,
    max_parts: int,
    catalog: Catalog | None = None,
) -> CheckpointPlan:
    """Plan a checkpoint that is written in parts.

    Args:
        version: version of the checkpoint; None for the latest.
        max_parts: approximate maximum number of parts. There are never more parts than row groups
            in the previous checkpoint.
    """
    return plan_parts(engine, load_for_checkpoint(engine, table, version, catalog), max_parts)


def plan_parts(engine: Engine, state: TableState, max_parts: int) -> CheckpointPlan:
    """Plan a checkpoint that is written in parts, for a version that is already loaded.

    Args:
        state: result of `load_for_checkpoint`.
        max_parts: see `plan_checkpoint`.
    """
    now = time.time_ns() // 1_000_000
    tombstone_cutoff = now - state.table_properties.deleted_file_retention_ms
    sidecars = features.V2_CHECKPOINT in features.all_features(state.protocol)
    previous = base_checkpoint(engine, state)
    slices = [] if previous is None else checkpoint_slices(engine, state.path, previous, max_parts)
    parts = tuple(
        CheckpointPart(
            table=state.path,
            path=sidecar_path(state.path)
            if sidecars
            else _part_path(state, number, len(slices) + 1),
            split=part.split,
            seen_keys=state.replay_state.seen_keys,
            schema=state.schema,
            partition_columns=state.partition_columns,
            configuration=dict(state.properties),
            tombstone_cutoff=tombstone_cutoff,
            sidecar=sidecars,
        )
        for number, part in enumerate(slices, 2)
        if part.split is not None
    )
    claim = _claim(engine, state) if parts and not sidecars else None
    if claim is None and not sidecars:
        parts = ()
    return CheckpointPlan(
        parts=parts, state=state, tombstone_cutoff=tombstone_cutoff, sidecars=sidecars, claim=claim
    )


def _claim(engine: Engine, state: TableState) -> str | None:
    """Create the file that keeps other writers from writing the same multi-part checkpoint.

    Return the path of this claim file. Return None if the claim file or a checkpoint file of the
    version already exists.
    """
    claim = f"{log_path(state.path)}/.{state.version:020d}.checkpoint-parts.tmp"
    if not engine.files.put_if_absent(claim, b"{}"):
        return None
    prefix = f"{log_path(state.path)}/{state.version:020d}.checkpoint."
    # A writer deletes its claim file after it has written the checkpoint. This listing follows the
    # creation of the claim file, so it also contains the files of a writer that has just finished.
    with engine.files.list_from(prefix) as statuses:
        first = next(iter(statuses), None)
    if first is None or not first.path.startswith(prefix):
        return claim
    engine.files.delete_files([claim])
    return None


def write_checkpoint_part(engine: Engine, part: CheckpointPart) -> WrittenPart:
    """Write one part of a checkpoint. If the part already exists, it is written again."""
    layout = CheckpointFormat.of(part.schema, part.partition_columns, part.configuration)
    schema = layout.file_schema if part.sidecar else layout.schema
    counts = RowCounts()
    rows = part_rows(
        engine,
        part.table,
        part.split,
        layout,
        seen_keys=part.seen_keys,
        tombstone_cutoff=part.tombstone_cutoff,
    )
    batches = (batch.select(schema.names) for batch in counts.count(rows))
    status = engine.parquet.write_parquet_file_atomically(part.path, schema, batches)
    return WrittenPart(
        path=status.path,
        size=status.size,
        modification_time=status.modification_time,
        actions=counts.actions,
        adds=counts.adds,
        added_bytes=counts.bytes,
    )


def _part_path(state: TableState, number: int, parts: int) -> str:
    name = multipart_checkpoint_file_name(state.version, number, parts)
    return f"{log_path(state.path)}/{name}"


def _finish_multi_part(
    engine: Engine, plan: CheckpointPlan, parts: Sequence[WrittenPart], counts: RowCounts
) -> int:
    """Write the first part of a multi-part checkpoint, and return the size of all parts in bytes.

    The first part contains the actions that no other part contains: all non-file actions, and the
    file actions that aren't in the Parquet files of the previous checkpoint.
    """
    state = plan.state
    layout = _layout(state)
    rows = counts.count(
        [
            *metadata_rows(state, layout, _plan_time(plan)),
            *tail_rows(
                engine, state, base_checkpoint(engine, state), layout, plan.tombstone_cutoff
            ),
        ]
    )
    path = _part_path(state, 1, len(parts) + 1)
    status = engine.parquet.write_parquet_file_atomically(path, layout.schema, rows)
    return status.size + sum(p.size for p in parts)


def _finish_sidecars(
    engine: Engine, plan: CheckpointPlan, parts: Sequence[WrittenPart], counts: RowCounts
) -> int:
    """Write a sidecar with the file actions that no part contains, then the top-level file.

    Return the total size of all files of the checkpoint in bytes.
    """
    state = plan.state
    layout = _layout(state)
    sidecars = [
        FileStatus(path=p.path, size=p.size, modification_time=p.modification_time) for p in parts
    ]
    previous = base_checkpoint(engine, state)
    tail = list(counts.count(tail_rows(engine, state, previous, layout, plan.tombstone_cutoff)))
    if tail:
        schema = layout.file_schema
        rows = (batch.select(schema.names) for batch in tail)
        path = sidecar_path(state.path)
        sidecars.append(engine.parquet.write_parquet_file_atomically(path, schema, rows))
    non_file_actions = list(counts.count(metadata_rows(state, layout, _plan_time(plan))))
    return write_top_file(engine, state.path, state.version, non_file_actions, sidecars).size


def _plan_time(plan: CheckpointPlan) -> int:
    """Return the time when the plan was created, in ms since the epoch."""
    return plan.tombstone_cutoff + plan.state.table_properties.deleted_file_retention_ms


def _layout(state: TableState) -> CheckpointFormat:
    return CheckpointFormat.of(state.schema, state.partition_columns, state.properties)


@runtime_checkable
class CheckpointWorkers(Protocol):
    """Optional protocol of an engine that can write parts of checkpoints on workers."""

    def checkpoint_parts(self, log_bytes: int) -> int:
        """Return the number of parts that workers should write.

        If the result is 1 or less, the calling process writes the checkpoint.

        Args:
            log_bytes: size of the previous checkpoint's Parquet files.
        """
        ...

    def write_checkpoint_parts(
        self, table: str, parts: Sequence[CheckpointPart]
    ) -> Sequence[WrittenPart] | None:
        """Run `write_checkpoint_part` for each part on a worker, and return the results.

        Return None if no workers are available. The calling process then writes the checkpoint.
        """
        ...


def write_checkpoint_with_workers(
    engine: Engine, table: str, version: int | None = None, catalog: Catalog | None = None
) -> int:
    """Write a checkpoint and return its version; workers write the parts of a large checkpoint.

    This process writes the checkpoint itself in these cases:

    - The engine has no workers.
    - The checkpoint is small.
    - Another writer has started a multi-part checkpoint of the version.
    """
    state = load_for_checkpoint(engine, table, version, catalog)
    if isinstance(engine, CheckpointWorkers):
        plan = _plan(engine, engine, state)
        if plan is not None:
            written = engine.write_checkpoint_parts(state.path, plan.parts)
            if written is not None:
                return plan.finish(engine, written)
            plan.release(engine)
    return write_checkpoint(engine, state)


def _plan(engine: Engine, workers: CheckpointWorkers, state: TableState) -> CheckpointPlan | None:
    """Return a plan with at least two parts; None if this process should write the checkpoint."""
    previous = base_checkpoint(engine, state)
    count = 0 if previous is None else workers.checkpoint_parts(previous.size)
    if count <= 1:
        return None
    plan = plan_parts(engine, state, count)
    if len(plan.parts) <= 1:
        plan.release(engine)
        return None
    return plan
