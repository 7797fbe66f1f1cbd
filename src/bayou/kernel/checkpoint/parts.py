"""A checkpoint written by many: each writes a part of it, whoever planned it puts them together.

A part is a slice of the checkpoint behind the version, which any process can read, filter and write
by itself; what the commits since have added is small and stays with the planner. Where the table
may have V2 checkpoints the parts are sidecars, under names of their own. Else they are files of a
multi-part checkpoint, whose names are the same for everybody. Two that write the parts of one
version must not mix them: files would be missing from the checkpoint, or be in it twice. The first
one claims the version; whoever comes later, or finds a checkpoint's file of that version, writes a
single file.

Checkpoints of large tables, written by workers that an engine has.

An engine may have more than this process to work with. One that is a `CheckpointWorkers` is asked
how many parts a checkpoint is worth, and has them written; any other engine writes it here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import msgspec

from bayou.errors import ArgumentError
from bayou.kernel.arrow.serialization import WireFormat, array_from_bytes, array_to_bytes
from bayou.kernel.catalog import Catalog
from bayou.kernel.checkpoint.format import CheckpointFormat
from bayou.kernel.checkpoint.rows import RowCounts, metadata_rows, part_rows, tail_rows
from bayou.kernel.checkpoint.state_files import checkpoint_behind
from bayou.kernel.checkpoint.v2 import sidecar_path, write_top_file
from bayou.kernel.checkpoint.write import finish_checkpoint, load_for_checkpoint, write_checkpoint
from bayou.kernel.crc.read import FileTotals
from bayou.kernel.engine import Engine, FileSplit, FileStatus
from bayou.kernel.log.file_action_keys import TouchedKeys
from bayou.kernel.log.segment import log_path
from bayou.kernel.log.slices import checkpoint_slices
from bayou.kernel.log.table_state import TableState
from bayou.protocol import features
from bayou.protocol.file_names import multipart_checkpoint_file_name
from bayou.protocol.last_checkpoint import LastCheckpoint
from bayou.protocol.schema import StructType

__all__ = [
    "CheckpointPart",
    "CheckpointPlan",
    "CheckpointWorkers",
    "WrittenPart",
    "checkpoint_by_workers",
    "plan_checkpoint",
    "plan_parts",
    "write_checkpoint_part",
]


class _WirePart(msgspec.Struct, frozen=True, array_like=True):
    table: str
    path: str
    split: FileSplit
    paths: bytes
    keys: bytes
    schema: str
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]
    expired: int
    sidecar: bool


_WIRE = WireFormat("checkpoint part", 1, _WirePart)


class WrittenPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part that was written; msgspec's encoders send it.

    Attributes:
        path, size, modification_time: the file.
        actions, adds: rows, and those that are live files.
        added_bytes: of the live files.
    """

    path: str
    size: int
    modification_time: int
    actions: int
    adds: int
    added_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPart:
    """A work item: one file of a checkpoint.

    Attributes:
        table: its path.
        path: the file to write.
        split: of the checkpoint behind the version, what to read.
        touched: files that the commits since have touched.
        schema, partition_columns, configuration: the table's.
        expired: time in ms up to which tombstones are left out.
        sidecar: the file is a sidecar.
    """

    table: str
    path: str
    split: FileSplit
    touched: TouchedKeys
    schema: StructType
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    expired: int
    sidecar: bool

    def to_bytes(self) -> bytes:
        """For another process."""
        return _WIRE.encode(
            _WirePart(
                self.table,
                self.path,
                self.split,
                array_to_bytes(self.touched.paths),
                array_to_bytes(self.touched.keys),
                self.schema.to_json(),
                self.partition_columns,
                dict(self.configuration),
                self.expired,
                self.sidecar,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> CheckpointPart:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                table=wire.table,
                path=wire.path,
                split=wire.split,
                touched=TouchedKeys(array_from_bytes(wire.paths), array_from_bytes(wire.keys)),
                schema=StructType.from_json(wire.schema),
                partition_columns=wire.partition_columns,
                configuration=wire.configuration,
                expired=wire.expired,
                sidecar=wire.sidecar,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """A checkpoint to be written in parts.

    Attributes:
        parts: the work items, in any order; run each by `write_checkpoint_part`. None of them
            where there is no checkpoint to read, or where another one writes the parts of a
            multi-part checkpoint of that version: `finish` writes everything then.
        claim: the file that keeps others from writing these parts; None for sidecars, and where
            there are no parts.
    """

    parts: tuple[CheckpointPart, ...]
    state: TableState = field(repr=False)
    expired: int
    sidecars: bool
    claim: str | None = None

    def finish(self, engine: Engine, written: Iterable[WrittenPart]) -> int:
        """Write what isn't in the parts, which completes the checkpoint, and point to it.

        Args:
            written: of all parts.

        Returns:
            The version.

        Raises:
            ArgumentError: a part is missing.
            StorageError: the store failed; nobody sees the parts that there are.
        """
        if not self.parts and not self.sidecars:
            return write_checkpoint(engine, self.state)
        done = {part.path: part for part in written}
        missing = [part.path for part in self.parts if part.path not in done]
        if missing:
            raise ArgumentError(
                f"The checkpoint of {self.state.path} lacks {len(missing)} of "
                f"{len(self.parts)} parts: {missing[0]} wasn't written.",
                argument="written",
            )
        parts = [done[part.path] for part in self.parts]
        counts = RowCounts()
        finish = _finish_sidecars if self.sidecars else _finish_multi_part
        size = finish(engine, self, parts, counts)
        adds = counts.adds + sum(p.adds for p in parts)
        pointer = LastCheckpoint(
            version=self.state.version,
            size=counts.actions + sum(p.actions for p in parts),
            parts=None if self.sidecars or not parts else len(parts) + 1,
            size_in_bytes=size,
            num_of_add_files=adds,
        )
        total = counts.bytes + sum(p.added_bytes for p in parts)
        finish_checkpoint(engine, self.state, pointer, FileTotals(adds, total))
        self.release(engine)
        return self.state.version

    def release(self, engine: Engine) -> None:
        """Give up the claim: the parts are complete, or nobody has begun or will begin to write
        them. Log cleanup deletes the claim of a planner that died.

        Raises:
            StorageError: the store failed.
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
    """Cut the checkpoint of a version into parts, the latest version where it is None.

    Args:
        max_parts: about how many; never more than the checkpoint behind has row groups.
        catalog: the one that manages the table, if any.

    Raises:
        BayouError: as `checkpoint`.
    """
    return plan_parts(engine, load_for_checkpoint(engine, table, version, catalog), max_parts)


def plan_parts(engine: Engine, state: TableState, max_parts: int) -> CheckpointPlan:
    """`plan_checkpoint` of a version that `load_for_checkpoint` gave."""
    now = time.time_ns() // 1_000_000
    expired = now - state.table_properties.deleted_file_retention_ms
    sidecars = features.V2_CHECKPOINT in features.all_features(state.protocol)
    behind = checkpoint_behind(engine, state)
    slices = [] if behind is None else checkpoint_slices(engine, state.path, behind, max_parts)
    parts = tuple(
        CheckpointPart(
            table=state.path,
            path=sidecar_path(state.path)
            if sidecars
            else _part_path(state, number, len(slices) + 1),
            split=piece.split,
            touched=state.replay_state.touched,
            schema=state.schema,
            partition_columns=state.partition_columns,
            configuration=state.properties,
            expired=expired,
            sidecar=sidecars,
        )
        for number, piece in enumerate(slices, 2)
        if piece.split is not None
    )
    claim = _claim(engine, state) if parts and not sidecars else None
    if claim is None and not sidecars:
        parts = ()
    return CheckpointPlan(parts=parts, state=state, expired=expired, sidecars=sidecars, claim=claim)


def _claim(engine: Engine, state: TableState) -> str | None:
    """Claim the parts of a multi-part checkpoint; None if they aren't to be written.

    The claim comes before the look: one that claims later sees the files of one that released.
    """
    claim = f"{log_path(state.path)}/.{state.version:020d}.checkpoint-parts.tmp"
    if not engine.files.put_if_absent(claim, b"{}"):
        return None
    begin = f"{log_path(state.path)}/{state.version:020d}.checkpoint."
    with engine.files.list_from(begin) as found:
        first = next(iter(found), None)
    if first is None or not first.path.startswith(begin):
        return claim
    engine.files.delete_files([claim])
    return None


def write_checkpoint_part(engine: Engine, part: CheckpointPart) -> WrittenPart:
    """Write one part; repeatable.

    Raises:
        CorruptTableError: the checkpoint that is read is gone or isn't one.
        StorageError: the store failed.
    """
    layout = CheckpointFormat.of(part.schema, part.partition_columns, part.configuration)
    schema = layout.file_schema if part.sidecar else layout.schema
    counts = RowCounts()
    rows = part_rows(
        engine, part.table, part.split, layout, touched=part.touched, expired=part.expired
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
    """The first part: everything but files, and the files of the commits."""
    state = plan.state
    layout = _layout(state)
    rows = counts.count(
        [
            *metadata_rows(state, layout, _plan_time(plan)),
            *tail_rows(engine, state, checkpoint_behind(engine, state), layout, plan.expired),
        ]
    )
    path = _part_path(state, 1, len(parts) + 1)
    status = engine.parquet.write_parquet_file_atomically(path, layout.schema, rows)
    return status.size + sum(p.size for p in parts)


def _finish_sidecars(
    engine: Engine, plan: CheckpointPlan, parts: Sequence[WrittenPart], counts: RowCounts
) -> int:
    """A sidecar for the files of the commits, and the file that names all sidecars."""
    state = plan.state
    layout = _layout(state)
    sidecars = [
        FileStatus(path=p.path, size=p.size, modification_time=p.modification_time) for p in parts
    ]
    behind = checkpoint_behind(engine, state)
    tail = list(counts.count(tail_rows(engine, state, behind, layout, plan.expired)))
    if tail:
        schema = layout.file_schema
        rows = (batch.select(schema.names) for batch in tail)
        path = sidecar_path(state.path)
        sidecars.append(engine.parquet.write_parquet_file_atomically(path, schema, rows))
    rest = list(counts.count(metadata_rows(state, layout, _plan_time(plan))))
    return write_top_file(engine, state.path, state.version, rest, sidecars).size


def _plan_time(plan: CheckpointPlan) -> int:
    """When the plan was made, ms since the epoch."""
    return plan.expired + plan.state.table_properties.deleted_file_retention_ms


def _layout(state: TableState) -> CheckpointFormat:
    return CheckpointFormat.of(state.schema, state.partition_columns, state.properties)


@runtime_checkable
class CheckpointWorkers(Protocol):
    """What an engine with workers offers besides an `Engine`'s handlers."""

    def checkpoint_parts(self, log_bytes: int) -> int:
        """Into how many parts a checkpoint is cut; at most 1: it is written in this process.

        Args:
            log_bytes: of the checkpoint that it builds on.
        """
        ...

    def write_checkpoint_parts(
        self, table: str, parts: Sequence[CheckpointPart]
    ) -> Sequence[WrittenPart] | None:
        """Run `write_checkpoint_part` for each part, anywhere.

        Args:
            table: its path.

        Returns:
            What that gave; None where the workers can't be had, and this process does it.

        Raises:
            BayouError: a part can't be written.
        """
        ...


def checkpoint_by_workers(
    engine: Engine, table: str, version: int | None = None, catalog: Catalog | None = None
) -> int:
    """`checkpoint`, by the engine's workers where it has some and the checkpoint is large.

    The parts of a classic checkpoint have the same names whoever writes them: where some of that
    version lie there already, of another process or of one that died, one file is written instead.

    Raises:
        BayouError: see `checkpoint`.
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
    """In parts, None where one file is better."""
    behind = checkpoint_behind(engine, state)
    count = 0 if behind is None else workers.checkpoint_parts(behind.size)
    if count <= 1:
        return None
    plan = plan_parts(engine, state, count)
    if len(plan.parts) <= 1:
        plan.release(engine)
        return None
    return plan
