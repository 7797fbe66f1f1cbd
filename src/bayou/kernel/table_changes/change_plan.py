"""Selection of the files that contain the changed rows of a commit (PROTOCOL.md, Add CDC File)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import (
    ChangeDataFeedError,
    CorruptTableError,
    DataFileError,
    FileMissingError,
    PredicateError,
    VersionNotFoundError,
)
from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate, referenced_columns
from bayou.kernel.log.slices import LogSlice
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.scan.scan import Scan, ScanBuilder
from bayou.kernel.scan.scan_file import (
    ScanFile,
    ScanFileBatch,
    adds_to_array,
    data_file_path,
)
from bayou.kernel.table_changes.change_file import ChangeFile
from bayou.kernel.table_changes.commit_range import CommitActions, CommitRange
from bayou.kernel.table_changes.schema_changes import moved_column
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol.actions import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    DELETE,
    INSERT,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DeletionVectorDescriptor,
    Metadata,
    RemoveFile,
)
from bayou.protocol.file_names import canonical_path, equivalent_paths, hadoop_encoded_path

_CHUNK = 4_096
"""Number of files of a commit that are pruned at a time."""

_MERGE_METRICS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """A plan for selecting the files with changed rows.

    Attributes:
        commits: the commits to read; None if there are no commits to read.
        read_state: table state that determines the schema of the returned rows.
        partitioned: whether the table may have had partition columns in the range of commits, or
            in the version before the range.
        scan: a scan with the conjuncts of the filter that use only columns of the table.
        prunes: whether `scan` has a filter.
        feed_filters: the conjuncts of the filter that use only `_change_type`, `_commit_version`
            and `_commit_timestamp`.
    """

    commits: CommitRange | None
    read_state: TableState
    partitioned: bool
    scan: Scan
    prunes: bool
    feed_filters: tuple[Predicate, ...]

    def files_of(self, engine: Engine, commit: CommitActions) -> Iterator[ChangeFile]:
        """Yield the files of a commit that may contain matching rows."""
        if not self._may_match(engine, commit, None):
            return
        changes = self._changes(engine, commit)
        matching_types: dict[str | None, bool] = {}
        while chunk := list(islice(changes, _CHUNK)):
            for change_type in {f.change_type for f in chunk}.difference(matching_types):
                matching_types[change_type] = self._may_match(engine, commit, change_type)
            files = [f for f in chunk if matching_types[f.change_type]]
            yield from self._prune(engine, files) if self.prunes and files else files

    def _changes(self, engine: Engine, commit: CommitActions) -> Iterator[ChangeFile]:
        """Yield all files with rows that a commit changed.

        To limit memory, the commit is decoded several times. Only its `remove` actions, and the
        `add` actions of the same files, are kept in memory.
        """
        removes: dict[str, RemoveFile] = {}
        for action in commit.decoded(RemoveFile, AddCDCFile):
            if isinstance(action, AddCDCFile):
                yield from self._change_data_files(commit)
                return
            if isinstance(action, RemoveFile) and action.data_change:
                removes[canonical_path(action.path)] = action
        if is_merge_without_changes(commit):
            return
        replaced: dict[str, AddFile] = {}
        if removes:
            replaced = {path: a for path, a in _adds(commit) if path in removes}
        removed = [remove for path, remove in removes.items() if path not in replaced]
        if removed:
            self._check_removed_columns(engine, commit)
        for add in self._removed_files(engine, commit, removed):
            yield self._change(commit, add, DELETE)
        for path, add in replaced.items():
            yield from self._vector_change(commit, removes[path], add)
        for path, add in _adds(commit):
            if path not in removes:
                yield self._change(commit, add, INSERT)

    def _change_data_files(self, commit: CommitActions) -> Iterator[ChangeFile]:
        for cdc in commit.decoded(AddCDCFile):
            assert isinstance(cdc, AddCDCFile)  # the only requested type
            yield _change_data_file(self.read_state.path, commit, cdc)

    def _vector_change(
        self, commit: CommitActions, remove: RemoveFile, add: AddFile
    ) -> Iterator[ChangeFile]:
        """Yield change files for the deleted and the restored rows of a file.

        The commit contains a `remove` and an `add` of the file, with different deletion vectors.
        The statistics in the `add` aren't used, because some writers compute statistics without the
        deleted rows.
        """
        before, after = remove.deletion_vector, add.deletion_vector
        file = msgspec.structs.replace(add, stats=None)
        if before == after:
            return
        if after is not None:
            live = msgspec.structs.replace(file, deletion_vector=before)
            yield self._change(commit, live, DELETE, only=after)
        if before is not None:
            yield self._change(commit, file, INSERT, only=before)

    def _check_removed_columns(self, engine: Engine, commit: CommitActions) -> None:
        """Check that removed files have the same physical column names as `read_state`.

        A commit that removes files can also change the schema, for example a RESTORE. With column
        mapping, a column's physical name can then differ between the removed files and
        `read_state`. Without this check, the column would be read as nulls.
        """
        table, version = self.read_state.path, commit.version
        if version == 0 or next(commit.decoded(Metadata), None) is None:
            return
        try:
            before = load_table_state(engine, table, version - 1, catalog=self.read_state.catalog)
        except VersionNotFoundError:
            return
        name = moved_column(before.schema, self.read_state.schema)
        if name is not None:
            raise ChangeDataFeedError(
                f"{table}: the changes of version {version} can't be read. The version removes "
                f"files of version {version - 1}. In these files, column {name!r} has a different "
                f"physical name than in version {self.read_state.version}. Compare the rows of "
                f"versions {version - 1} and {version}, and start at version {version + 1} or "
                "later.",
                table=table,
                version=version,
            )

    def _removed_files(
        self, engine: Engine, commit: CommitActions, removes: Sequence[RemoveFile]
    ) -> Iterator[AddFile]:
        """Create an `add` for each removed file.

        If a `remove` has no partition values, the partition values are read from the previous
        version.
        """
        incomplete = [r.path for r in removes if r.partition_values is None and self.partitioned]
        adds = self._previous_adds(engine, commit.version, incomplete) if incomplete else {}
        for remove in removes:
            values, size = remove.partition_values, remove.size
            add = adds.get(canonical_path(remove.path))
            if values is None and add is not None:
                values, size = add.partition_values, add.size
            yield AddFile(
                path=remove.path,
                partition_values=values or {},
                size=self._size(engine, remove.path) if size is None else size,
                modification_time=0,
                data_change=True,
                stats=remove.stats,
                deletion_vector=remove.deletion_vector,
            )

    def _previous_adds(
        self, engine: Engine, version: int, paths: Sequence[str]
    ) -> dict[str, AddFile]:
        """Read the `add` actions of files from the version before `version`.

        The keys of the result are canonical paths.
        """
        table = self.read_state.path
        spelled = to_array(
            sorted({name for path in paths for name in equivalent_paths(path)}), pa.string()
        )
        adds: dict[str, AddFile] = {}
        if version > 0:
            catalog = self.read_state.catalog
            state = load_table_state(engine, table, version - 1, catalog=catalog)
            scan = ScanBuilder(state).build()
            with scan.scan_files(engine) as batches:
                for batch in batches:
                    rows = batch.selected()
                    mask = pc.is_in(pc.struct_field(rows.column("add"), "path"), value_set=spelled)
                    if mask.true_count:
                        matches = ScanFileBatch(rows.filter(mask))
                        adds.update((canonical_path(f.path), f.add) for f in matches.rows())
        missing = [path for path in paths if canonical_path(path) not in adds]
        if missing:
            raise CorruptTableError(
                f"{table}: the remove action of file {missing[0]} in version {version} has no "
                f"partition values, and version {version - 1} doesn't contain this file. Start "
                f"after version {version}.",
                table=table,
                file=missing[0],
            )
        return adds

    def _size(self, engine: Engine, uri: str) -> int:
        path = data_file_path(self.read_state.path, uri)
        try:
            return engine.files.status(path).size
        except FileMissingError as error:
            raise DataFileError(
                f"{self.read_state.path}: data file {path} is missing; VACUUM may have deleted it. "
                "The changes of the version that removed the file can't be read. Start after that "
                "version.",
                table=self.read_state.path,
                file=path,
            ) from error

    def _change(
        self,
        commit: CommitActions,
        add: AddFile,
        change_type: str,
        only: DeletionVectorDescriptor | None = None,
    ) -> ChangeFile:
        return ChangeFile(
            file=ScanFile(table_root=self.read_state.path, add=add),
            version=commit.version,
            timestamp=commit.timestamp,
            change_type=change_type,
            only=only,
        )

    def _prune(self, engine: Engine, files: list[ChangeFile]) -> Iterator[ChangeFile]:
        """Select the files that may contain a matching row, by partition values and statistics.

        The partition values of some files can't be compared, because their commit had other
        partition columns than `read_state`. These files are always selected.
        """
        state = self.read_state
        partitions = {physical_name(f) for f in state.schema if f.name in state.partition_columns}
        candidates = [f.file.add for f in files if f.file.partition_values.keys() == partitions]
        selected = {f.file.path for f in files}.difference(add.path for add in candidates)
        with self.scan.replay_slice(engine, LogSlice(adds=adds_to_array(candidates))) as batches:
            for batch in batches:
                selected.update(f.path for f in batch.rows())
        yield from (f for f in files if f.file.path in selected)

    def _may_match(self, engine: Engine, commit: CommitActions, change_type: str | None) -> bool:
        """Whether a row of the commit can match `feed_filters`.

        Args:
            change_type: change type of the row; None if unknown.
        """
        filters = [
            f
            for f in self.feed_filters
            if change_type is not None or (CHANGE_TYPE,) not in referenced_columns(f)
        ]
        if not filters:
            return True
        schema = to_arrow_schema(CHANGE_COLUMNS)
        values: list[Any] = [change_type, commit.version, commit.timestamp * 1000]
        row = pa.RecordBatch.from_arrays(
            [to_array([v], f.type) for v, f in zip(values, schema, strict=True)], schema=schema
        )
        evaluator = engine.expressions.predicate_evaluator
        try:
            return all(evaluator(CHANGE_COLUMNS, f).eval(row).true_count for f in filters)
        except PredicateError:  # such as an overflow, which is raised again if there are rows
            return True


def _adds(commit: CommitActions) -> Iterator[tuple[str, AddFile]]:
    for action in commit.decoded(AddFile):
        if isinstance(action, AddFile) and action.data_change:
            yield canonical_path(action.path), action


def _change_data_file(table: str, commit: CommitActions, cdc: AddCDCFile) -> ChangeFile:
    add = AddFile(
        path=cdc.path,
        partition_values=cdc.partition_values,
        size=cdc.size,
        modification_time=0,
        data_change=False,
    )
    return ChangeFile(
        file=ScanFile(table_root=table, add=add), version=commit.version, timestamp=commit.timestamp
    )


def is_merge_without_changes(commit: CommitActions) -> bool:
    """Whether a commit is a MERGE that changes no rows, according to `operationMetrics`."""
    info = next(commit.decoded(CommitInfo), None)
    if not isinstance(info, CommitInfo) or info.get("operation") != "MERGE":
        return False
    metrics = info.get("operationMetrics")
    return isinstance(metrics, dict) and all(metrics.get(m) == "0" for m in _MERGE_METRICS)


_HAS_SEVERAL_ENCODINGS = r"[^A-Za-z0-9_\-.=/]|^/"


def path_order(paths: pa.Array[Any]) -> pa.Array[Any]:
    """Return a sort key for each path; all percent-encodings of a path have the same key."""
    several = pc.match_substring_regex(paths, _HAS_SEVERAL_ENCODINGS)
    if not pc.any(several).as_py():
        return paths
    affected: list[Any] = paths.filter(several).to_pylist()
    normalized = to_array([hadoop_encoded_path(path) for path in affected], pa.string())
    keys: pa.Array[Any] = pc.replace_with_mask(paths, several, normalized)
    return keys
