"""All file actions of a version as columns, for connectors that reconcile actions with a shuffle.

Each row has one file action. A connector such as Spark groups the rows by `key`, sorts each group
by `version` and `dataChange` in descending order, and takes the first row of each group. If this
row has an `add`, the `add` is a live file (PROTOCOL.md, Action Reconciliation).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import ArgumentError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.catalog import InlineCommit
from bayou.kernel.checkpoint.add_files import read_checkpoint_adds
from bayou.kernel.checkpoint.parsed_stats import full_stats_type
from bayou.kernel.checkpoint.read import CheckpointContents, locate_checkpoint_files
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, FileActionKeys, key_strings
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import LogSegment
from bayou.kernel.log.slices import LogSlice, checkpoint_slices
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan import Scan
from bayou.kernel.scan.scan_definition import ScanDefinition
from bayou.kernel.scan.scan_file import ADD_TYPE, adds_to_array
from bayou.kernel.scan.scan_state import decode_scan, encode_scan
from bayou.kernel.table_features.column_mapping import to_physical_schema
from bayou.protocol.actions import AddFile, RemoveFile
from bayou.protocol.file_names import canonical_path

_FIELDS: list[Any] = [
    pa.field("key", pa.string()),
    pa.field("version", pa.int64()),
    pa.field("dataChange", pa.bool_()),
    pa.field("add", ADD_TYPE),
]
FILE_ACTION_SCHEMA = pa.schema(_FIELDS)
"""Schema of file actions.

The column `key` has the log-replay key: canonical path, `KEY_SEPARATOR` and deletion vector id. The
column `add` is null for a remove.
"""

_BATCH_ROWS = 16_384

_PLAIN_PATH = "^[^%:/][^%:]*$"
"""Regular expression that matches paths that are already canonical; see `canonical_path`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSlice(PickledTask):
    """A slice of a log: either commits, or a slice of the checkpoint.

    Attributes:
        commits: version and file of each commit, ascending; empty if the slice is from the
            checkpoint.
        checkpoint: slice of the checkpoint; None if the slice has commits.
        estimated_bytes: estimated size of the slice in storage.
    """

    commits: tuple[tuple[int, FileStatus], ...] = ()
    checkpoint: LogSlice | None = None
    estimated_bytes: int = 0


class FileActions(PickledTask):
    """Reads the file actions of one version of a table. Holds no engine and no open file."""

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

    def __reduce__(self) -> tuple[Any, ...]:
        return _file_actions, (encode_scan(self._definition), self._checkpoint_version)

    @classmethod
    def for_version(cls, state: TableState, scan: Scan) -> FileActions:
        """Create the reader for a version. `add.stats` is read only if `scan` reads statistics."""
        definition = scan.definition
        source = replace(
            definition.source,
            seen_keys=FileActionKeys.from_keys(()),
            exact_double_files=definition.source.exact_double_files.slice(0, 0),
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
        """The scan that selects the files to read; pass live files to its method `prune`.

        `prune` doesn't reconcile actions, so the caller must reconcile the actions first.
        """
        return Scan(self._definition)

    def slices(self, engine: Engine, max_slices: int) -> list[ActionSlice]:
        """Split the log into about `max_slices` slices: first the commits, then the checkpoint.

        Raises:
            ArgumentError: a commit isn't in the log, because only the catalog stores it; or this
                object was deserialized.
        """
        segment, table = self._segment, self._definition.source.table
        if segment is None or any(isinstance(f, InlineCommit) for f in segment.commits):
            raise ArgumentError(
                f"{table}: the commits can't be split into slices, because "
                + (
                    "the file actions were deserialized."
                    if segment is None
                    else "the catalog stores some of them."
                )
                + " Use the slices of the scan.",
                argument="slices",
            )
        first = segment.version - len(segment.commits) + 1
        commits = list(enumerate(segment.commits, first))
        size = sum(f.size for f in segment.commits)
        contents = self._contents
        if segment.checkpoint is not None and contents is None:
            contents = locate_checkpoint_files(engine, table, segment.checkpoint)
        total = size + (0 if contents is None else contents.size)
        slices = _commit_slices(commits, total / max(1, max_slices))
        if contents is None:
            return slices
        parts = checkpoint_slices(
            engine, table, contents, max(1, round(max_slices * contents.size / max(1, total)))
        )
        if contents.adds:
            parts = [LogSlice(adds=adds_to_array(contents.adds)), *parts]
        return slices + [
            ActionSlice(checkpoint=part, estimated_bytes=part.estimated_bytes) for part in parts
        ]

    @closeable
    def read(self, engine: Engine, part: ActionSlice) -> Iterator[pa.RecordBatch]:
        """Read the file actions of a slice in batches with the schema `FILE_ACTION_SCHEMA`."""
        if part.checkpoint is None:
            yield from self._read_commits(engine, part.commits)
        else:
            yield from self._read_checkpoint(engine, part.checkpoint)

    def _read_commits(
        self, engine: Engine, commits: Sequence[tuple[int, FileStatus]]
    ) -> Iterator[pa.RecordBatch]:
        pending: list[tuple[int, AddFile | RemoveFile]] = []
        with read_commits(engine, self._definition.source.table, commits) as decoded:
            for commit in decoded:
                pending += [
                    (commit.version, action)
                    for action in commit.actions
                    if isinstance(action, AddFile | RemoveFile)
                ]
                while len(pending) >= _BATCH_ROWS:
                    yield self._commit_batch(pending[:_BATCH_ROWS])
                    del pending[:_BATCH_ROWS]
        if pending:
            yield self._commit_batch(pending)

    def _commit_batch(self, actions: Sequence[tuple[int, AddFile | RemoveFile]]) -> pa.RecordBatch:
        adds = [action for _, action in actions if isinstance(action, AddFile)]
        if not self._definition.statistics:
            adds = [msgspec.structs.replace(add, stats=None) for add in adds]
        return _to_batch(actions, adds_to_array(adds))

    def _read_checkpoint(self, engine: Engine, part: LogSlice) -> Iterator[pa.RecordBatch]:
        if part.adds is not None:
            yield self._checkpoint_batch(part.adds)
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
            as_json=True,
        ) as batches:
            for files in batches:
                yield self._checkpoint_batch(files.adds)

    def _checkpoint_batch(self, adds: pa.StructArray) -> pa.RecordBatch:
        columns: list[Any] = [
            key_strings(adds, _canonical_paths(adds)),
            pa.repeat(pa.scalar(self._checkpoint_version, pa.int64()), len(adds)),
            pa.repeat(pa.scalar(value=False), len(adds)),
            adds,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=FILE_ACTION_SCHEMA)


def _file_actions(definition: bytes, checkpoint_version: int) -> FileActions:
    """Deserialize `FileActions`. The result can read slices, but can't create slices."""
    return FileActions(decode_scan(definition), checkpoint_version)


def tail_bytes(state: TableState) -> int:
    """Return the total size of the commits after the checkpoint.

    If there is no checkpoint, this is the total size of all commits.
    """
    return sum(f.size for f in state.log_segment.commits)


def _commit_slices(commits: list[tuple[int, FileStatus]], target: float) -> list[ActionSlice]:
    slices: list[ActionSlice] = []
    start = size = 0
    for i, (_, file) in enumerate(commits):
        size += file.size
        if size >= target or i == len(commits) - 1:
            slices.append(ActionSlice(commits=tuple(commits[start : i + 1]), estimated_bytes=size))
            start, size = i + 1, 0
    return slices


def _to_batch(
    actions: Sequence[tuple[int, AddFile | RemoveFile]], adds: pa.StructArray
) -> pa.RecordBatch:
    """Convert (version, action) pairs to rows of `FILE_ACTION_SCHEMA`.

    `adds` has the `AddFile` actions of the pairs, in order, as structs.
    """
    is_add = pa.array([isinstance(action, AddFile) for _, action in actions], pa.bool_())
    last_add = pc.subtract(pc.cumulative_sum(is_add.cast(pa.int32())), 1)
    positions = pc.if_else(is_add, last_add, None)
    columns: list[Any] = [
        pa.array([a.key[0] + KEY_SEPARATOR + (a.key[1] or "") for _, a in actions], pa.string()),
        pa.array([version for version, _ in actions], pa.int64()),
        pa.array([bool(a.data_change) for _, a in actions], pa.bool_()),
        adds.take(positions),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FILE_ACTION_SCHEMA)


def _canonical_paths(adds: pa.StructArray) -> Any:
    paths = pc.struct_field(adds, "path")
    other = pc.invert(pc.match_substring_regex(paths, _PLAIN_PATH))
    if not pc.any(other).as_py():
        return paths
    canonical = pa.array([canonical_path(p) for p in paths.filter(other).to_pylist()], pa.string())
    return pc.replace_with_mask(paths, other, canonical)
