"""All actions on files that make up a version, as columns and not yet reconciled.

What a scan's slices can't do without the commits' keys, an engine with a shuffle can: group the
rows by `key` and keep in each group the first by `version` descending, `dataChange` descending. It
is a live file if it has an `add` (PROTOCOL.md, Action Reconciliation). Removes take part: without
them the add that they undo would be the first. No process ever holds all keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import ArgumentError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.catalog import InlineCommit
from bayou.kernel.checkpoint.add_files import read_checkpoint_adds
from bayou.kernel.checkpoint.contents import CheckpointContents, locate_checkpoint_files
from bayou.kernel.checkpoint.parsed_stats import full_stats_type
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, TouchedKeys, key_texts
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import LogSegment
from bayou.kernel.log.slices import LogSlice, checkpoint_slices
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan import Scan
from bayou.kernel.scan.scan_file import ADD_TYPE, adds_to_array
from bayou.kernel.scan.scan_state import decode_scan, encode_scan
from bayou.kernel.scan.source import ScanDefinition
from bayou.kernel.table_features.column_mapping import to_physical_schema
from bayou.protocol.actions import AddFile, RemoveFile
from bayou.protocol.file_names import canonical_path

__all__ = ["FILE_ACTION_SCHEMA", "ActionSlice", "FileActions", "tail_bytes"]

pc: Any = pyarrow.compute

_FIELDS: list[Any] = [
    pa.field("key", pa.string()),
    pa.field("version", pa.int64()),
    pa.field("dataChange", pa.bool_()),
    pa.field("add", ADD_TYPE),
]
FILE_ACTION_SCHEMA = pa.schema(_FIELDS)
"""`key`: equal for actions on one logical file (path and deletion vector), however its path is
spelled. `add`: null for a remove."""

_BATCH_ROWS = 16_384

_PLAIN_PATH = "^[^%:/][^%:]*$"
"""Paths that are their own canonical form; see `canonical_path`."""


class _WireSlice(msgspec.Struct, frozen=True, array_like=True):
    commits: list[tuple[int, FileStatus]]
    checkpoint: bytes | None


_SLICE = WireFormat("action slice", 1, _WireSlice)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSlice:
    """A part of a log.

    Attributes:
        commits: versions and files of commits, ascending; empty for a part of the checkpoint.
        checkpoint: a part of the checkpoint; None for commits.
        estimated_bytes: what it takes on the store.
    """

    commits: tuple[tuple[int, FileStatus], ...] = ()
    checkpoint: LogSlice | None = None
    estimated_bytes: int = 0

    def to_bytes(self) -> bytes:
        """For another process."""
        part = None if self.checkpoint is None else self.checkpoint.to_bytes()
        return _SLICE.encode(_WireSlice(list(self.commits), part))

    @classmethod
    def from_bytes(cls, data: bytes) -> ActionSlice:
        """The inverse of `to_bytes`; the estimate stays behind.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _SLICE.decode(
            data,
            lambda wire: cls(
                commits=tuple(wire.commits),
                checkpoint=None if (part := wire.checkpoint) is None else LogSlice.from_bytes(part),
            ),
        )


class FileActions:
    """The actions on files behind one version of a table; holds no engine and no open file."""

    __slots__ = ("_checkpoint_version", "_contents", "_definition", "_segment")

    def __init__(
        self,
        definition: ScanDefinition,
        checkpoint_version: int,
        segment: LogSegment | None = None,
        contents: CheckpointContents | None = None,
    ) -> None:
        self._definition = definition
        self._checkpoint_version = checkpoint_version
        self._segment = segment
        self._contents = contents

    @classmethod
    def of(cls, state: TableState, scan: Scan) -> FileActions:
        """Those of a version, with the fields of `add` that a scan of it has."""
        definition = scan.definition
        source = replace(
            definition.source,
            touched=TouchedKeys.of(()),
            double_files=definition.source.double_files.slice(0, 0),
        )
        checkpoint = state.log_segment.checkpoint
        return cls(
            replace(definition, source=source, statistics=scan.reads_statistics),
            -1 if checkpoint is None else checkpoint.version,
            state.log_segment,
            state.checkpoint_contents,
        )

    @property
    def scan(self) -> Scan:
        """The same scan for files that have been reconciled: it knows nothing of the commits."""
        return Scan(self._definition)

    def slices(self, engine: Engine, max_slices: int) -> list[ActionSlice]:
        """About as many parts as asked for, commits first.

        Raises:
            ArgumentError: a commit is stored in a catalog, or these came as bytes.
            CorruptTableError: the checkpoint can't be read.
        """
        segment, table = self._segment, self._definition.source.table
        if segment is None or any(isinstance(f, InlineCommit) for f in segment.commits):
            raise ArgumentError(
                f"The commits of {table} can't be split: "
                + ("they came as bytes." if segment is None else "its catalog stores some of them.")
                + " Use the scan's slices.",
                argument="slices",
            )
        first = segment.version - len(segment.commits) + 1
        commits = list(enumerate(segment.commits, first))
        size = sum(f.size for f in segment.commits)
        contents = self._contents
        if segment.checkpoint is not None and contents is None:
            contents = locate_checkpoint_files(engine, table, segment.checkpoint)
        total = size + (0 if contents is None else contents.size)
        found = _runs(commits, total / max(1, max_slices))
        if contents is None:
            return found
        parts = checkpoint_slices(
            engine, table, contents, max(1, round(max_slices * contents.size / max(1, total)))
        )
        if contents.adds:
            parts = [LogSlice(adds=adds_to_array(contents.adds)), *parts]
        return found + [
            ActionSlice(checkpoint=part, estimated_bytes=part.estimated_bytes) for part in parts
        ]

    @closeable
    def read(self, engine: Engine, part: ActionSlice) -> Iterator[pa.RecordBatch]:
        """The actions of a part, `FILE_ACTION_SCHEMA`.

        Raises:
            CorruptTableError: a commit or a part of the checkpoint can't be read.
        """
        if part.checkpoint is None:
            yield from self._of_commits(engine, part.commits)
        else:
            yield from self._of_checkpoint(engine, part.checkpoint)

    def to_bytes(self) -> bytes:
        """For another process, which reads parts."""
        definition = encode_scan(self._definition)
        return _ACTIONS.encode(_WireActions(self._checkpoint_version, definition))

    @classmethod
    def from_bytes(cls, data: bytes) -> FileActions:
        """The inverse of `to_bytes`; it reads parts and doesn't list them.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _ACTIONS.decode(
            data, lambda wire: cls(decode_scan(wire.definition), wire.checkpoint_version)
        )

    def _of_commits(
        self, engine: Engine, commits: Sequence[tuple[int, FileStatus]]
    ) -> Iterator[pa.RecordBatch]:
        pending: list[tuple[int, AddFile | RemoveFile]] = []
        with read_commits(engine, self._definition.source.table, commits) as found:
            for commit in found:
                pending += [
                    (commit.version, action)
                    for action in commit.actions
                    if isinstance(action, AddFile | RemoveFile)
                ]
                while len(pending) >= _BATCH_ROWS:
                    yield self._batch(pending[:_BATCH_ROWS])
                    del pending[:_BATCH_ROWS]
        if pending:
            yield self._batch(pending)

    def _batch(self, actions: Sequence[tuple[int, AddFile | RemoveFile]]) -> pa.RecordBatch:
        found = [action for _, action in actions if isinstance(action, AddFile)]
        if not self._definition.statistics:
            found = [msgspec.structs.replace(add, stats=None) for add in found]
        return _batch(actions, adds_to_array(found))

    def _of_checkpoint(self, engine: Engine, part: LogSlice) -> Iterator[pa.RecordBatch]:
        if part.adds is not None:
            yield self._reconciled(part.adds)
        if part.split is None:
            return
        source, statistics = self._definition.source, self._definition.statistics
        parsed: pa.DataType | None = None
        if statistics:
            parsed = full_stats_type(to_physical_schema(source.schema, source.column_mapping))
        columns = [f.name for f in ADD_TYPE if statistics or f.name != "stats"]
        with read_checkpoint_adds(
            engine,
            source.table,
            part.split,
            columns,
            parsed=parsed,
            forms=source.stats_forms,
            as_text=True,
        ) as batches:
            for files in batches:
                yield self._reconciled(files.adds)

    def _reconciled(self, adds: pa.StructArray) -> pa.RecordBatch:
        columns: list[Any] = [
            key_texts(adds, _canonical_paths(adds)),
            pa.repeat(pa.scalar(self._checkpoint_version, pa.int64()), len(adds)),
            pa.repeat(pa.scalar(value=False), len(adds)),
            adds,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=FILE_ACTION_SCHEMA)


class _WireActions(msgspec.Struct, frozen=True, array_like=True):
    checkpoint_version: int
    definition: bytes


_ACTIONS = WireFormat("file actions", 1, _WireActions)


def tail_bytes(state: TableState) -> int:
    """Bytes of the commits behind a version's checkpoint, of all commits without one."""
    return sum(f.size for f in state.log_segment.commits)


def _runs(commits: list[tuple[int, FileStatus]], target: float) -> list[ActionSlice]:
    """Neighbouring commits of at least `target` bytes together."""
    found: list[ActionSlice] = []
    start = size = 0
    for i, (_, file) in enumerate(commits):
        size += file.size
        if size >= target or i == len(commits) - 1:
            found.append(ActionSlice(commits=tuple(commits[start : i + 1]), estimated_bytes=size))
            start, size = i + 1, 0
    return found


def _batch(
    actions: Sequence[tuple[int, AddFile | RemoveFile]], adds: pa.StructArray
) -> pa.RecordBatch:
    """Rows of `FILE_ACTION_SCHEMA`; `adds` are those of the actions."""
    is_add = pa.array([isinstance(action, AddFile) for _, action in actions], pa.bool_())
    before = pc.subtract(pc.cumulative_sum(is_add.cast(pa.int32())), 1)
    places = pc.if_else(is_add, before, None)
    columns: list[Any] = [
        pa.array([a.key[0] + KEY_SEPARATOR + (a.key[1] or "") for _, a in actions], pa.string()),
        pa.array([version for version, _ in actions], pa.int64()),
        pa.array([bool(a.data_change) for _, a in actions], pa.bool_()),
        adds.take(places),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FILE_ACTION_SCHEMA)


def _canonical_paths(adds: pa.StructArray) -> Any:
    paths = pc.struct_field(adds, "path")
    other = pc.invert(pc.match_substring_regex(paths, _PLAIN_PATH))
    if not pc.any(other).as_py():
        return paths
    texts = pa.array([canonical_path(p) for p in paths.filter(other).to_pylist()], pa.string())
    return pc.replace_with_mask(paths, other, texts)
