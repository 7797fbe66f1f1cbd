"""Which files hold the rows that a commit changed (PROTOCOL.md, Add CDC File).

The texts by which files are put in order, whoever wrote their paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import CorruptTableError, DataFileError, FileMissingError, PredicateError
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
    RemoveFile,
)
from bayou.protocol.file_names import canonical_path, hadoop_spelling, spellings

__all__ = ["ChangePlan", "changed_nothing", "path_order"]


pc: Any = pyarrow.compute

_CHUNK = 4_096
"""Files of a commit that are judged by a filter at a time."""

_MERGE_METRICS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """How the files of a commit are chosen.

    Attributes:
        scan: of the table's columns: prunes files by the part of the filter that speaks of them.
        prunes: whether there is such a part.
        feed_filters: conjuncts of the filter that speak of the feed's own columns only.
    """

    commits: CommitRange | None
    read_state: TableState
    partitioned: bool
    scan: Scan
    prunes: bool
    feed_filters: tuple[Predicate, ...]

    def files_of(self, engine: Engine, commit: CommitActions) -> Iterator[ChangeFile]:
        """The files of one commit that may hold rows for the filter."""
        if not self._may_match(engine, commit, None):
            return
        found = self._changes(engine, commit)
        types: dict[str | None, bool] = {}
        while chunk := list(islice(found, _CHUNK)):
            for change_type in {f.change_type for f in chunk}.difference(types):
                types[change_type] = self._may_match(engine, commit, change_type)
            files = [f for f in chunk if types[f.change_type]]
            yield from self._pruned(engine, files) if self.prunes and files else files

    def _changes(self, engine: Engine, commit: CommitActions) -> Iterator[ChangeFile]:
        """The files of one commit; of its adds only those are held that replace a file."""
        removes: dict[str, RemoveFile] = {}
        for action in commit.decoded(RemoveFile, AddCDCFile):
            if isinstance(action, AddCDCFile):
                yield from self._recorded(commit)
                return
            if isinstance(action, RemoveFile) and action.data_change:
                removes[canonical_path(action.path)] = action
        if changed_nothing(commit):
            return
        replaced: dict[str, AddFile] = {}
        if removes:
            replaced = {path: a for path, a in _adds(commit) if path in removes}
        gone = [remove for path, remove in removes.items() if path not in replaced]
        for add in self._removed_files(engine, commit, gone):
            yield self._change(commit, add, DELETE)
        for path, add in replaced.items():
            yield from self._vector_change(commit, removes[path], add)
        for path, add in _adds(commit):
            if path not in removes:
                yield self._change(commit, add, INSERT)

    def _recorded(self, commit: CommitActions) -> Iterator[ChangeFile]:
        """PROTOCOL.md, Add CDC File: where a version has such files, they alone count."""
        for cdc in commit.decoded(AddCDCFile):
            assert isinstance(cdc, AddCDCFile)  # nothing else was asked for
            yield _recorded(self.read_state.path, commit, cdc)

    def _vector_change(
        self, commit: CommitActions, remove: RemoveFile, add: AddFile
    ) -> Iterator[ChangeFile]:
        """A file that stays and gets another deletion vector: the rows in which the two differ.

        Its statistics may be those of the rows that are left, so they say nothing here.
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

    def _removed_files(
        self, engine: Engine, commit: CommitActions, removes: Sequence[RemoveFile]
    ) -> Iterator[AddFile]:
        """Removed files as they were when they were added."""
        unknown = [r.path for r in removes if r.partition_values is None and self.partitioned]
        known = self._added_before(engine, commit.version, unknown) if unknown else {}
        for remove in removes:
            values, size = remove.partition_values, remove.size
            before = known.get(canonical_path(remove.path))
            if values is None and before is not None:
                values, size = before.partition_values, before.size
            yield AddFile(
                path=remove.path,
                partition_values=values or {},
                size=self._size(engine, remove.path) if size is None else size,
                modification_time=0,
                data_change=True,
                stats=remove.stats,
                deletion_vector=remove.deletion_vector,
            )

    def _added_before(
        self, engine: Engine, version: int, paths: Sequence[str]
    ) -> dict[str, AddFile]:
        """The adds of files that a version removes without saying their partition values.

        They are found by canonical paths.
        """
        table = self.read_state.path
        wanted = pa.array(sorted({text for path in paths for text in spellings(path)}), pa.string())
        found: dict[str, AddFile] = {}
        if version > 0:
            catalog = self.read_state.catalog
            state = load_table_state(engine, table, version - 1, catalog=catalog)
            before = ScanBuilder(state).build()
            with before.scan_files(engine) as batches:
                for batch in batches:
                    rows = batch.selected()
                    mask = pc.is_in(pc.struct_field(rows.column("add"), "path"), value_set=wanted)
                    if mask.true_count:
                        hits = ScanFileBatch(rows.filter(mask))
                        found.update((canonical_path(f.path), f.add) for f in hits.rows())
        missing = [path for path in paths if canonical_path(path) not in found]
        if missing:
            raise CorruptTableError(
                f"Version {version} of {table} removes file {missing[0]} without its partition "
                f"values, and version {version - 1} has no such file to take them from. Begin "
                "after that version.",
                table=table,
                file=missing[0],
            )
        return found

    def _size(self, engine: Engine, uri: str) -> int:
        path = data_file_path(self.read_state.path, uri)
        try:
            return engine.files.status(path).size
        except FileMissingError as error:
            raise DataFileError(
                f"Data file {path} of {self.read_state.path} is missing: the rows that were "
                "deleted with it can't be read any more. VACUUM may have taken it; begin after "
                "that version.",
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

    def _pruned(self, engine: Engine, files: list[ChangeFile]) -> Iterator[ChangeFile]:
        """Files that may match by their partition values and statistics.

        A file of other partition columns than the table has now is kept.
        """
        state = self.read_state
        partitions = {physical_name(f) for f in state.schema if f.name in state.partition_columns}
        asked = [f.file.add for f in files if f.file.partition_values.keys() == partitions]
        kept = {f.file.path for f in files}.difference(add.path for add in asked)
        with self.scan.replay_slice(engine, LogSlice(adds=adds_to_array(asked))) as batches:
            for batch in batches:
                kept.update(f.path for f in batch.rows())
        yield from (f for f in files if f.file.path in kept)

    def _may_match(self, engine: Engine, commit: CommitActions, change_type: str | None) -> bool:
        """Whether a row of the commit can pass the filters on the feed's own columns.

        Args:
            change_type: of the row, None where it isn't known.
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
            [pa.array([v], f.type) for v, f in zip(values, schema, strict=True)], schema=schema
        )
        ready = engine.expressions.predicate_evaluator
        try:
            return all(ready(CHANGE_COLUMNS, f).eval(row).true_count for f in filters)
        except PredicateError:  # such as an overflow; it is for the rows to say, if there are any
            return True


def _adds(commit: CommitActions) -> Iterator[tuple[str, AddFile]]:
    """The files that a commit adds, by decoded path; those that change no data are left out."""
    for action in commit.decoded(AddFile):
        if isinstance(action, AddFile) and action.data_change:
            yield canonical_path(action.path), action


def _recorded(table: str, commit: CommitActions, cdc: AddCDCFile) -> ChangeFile:
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


def changed_nothing(commit: CommitActions) -> bool:
    """A MERGE may rewrite files without changing a row; its metrics say so (as in delta-spark)."""
    info = next(commit.decoded(CommitInfo), None)
    if not isinstance(info, CommitInfo) or info.get("operation") != "MERGE":
        return False
    metrics = info.get("operationMetrics")
    return isinstance(metrics, dict) and all(metrics.get(m) == "0" for m in _MERGE_METRICS)


_SPELLED_IN_SEVERAL_WAYS = r"[^A-Za-z0-9_\-.=/]|^/"


def path_order(paths: pa.Array[Any]) -> pa.Array[Any]:
    """For each path of the log the text that orders it, equal for all spellings of one file."""
    several = pc.match_substring_regex(paths, _SPELLED_IN_SEVERAL_WAYS)
    if not pc.any(several).as_py():
        return paths
    found: list[Any] = paths.filter(several).to_pylist()
    texts = [hadoop_spelling(path) for path in found]
    ordered: pa.Array[Any] = pc.replace_with_mask(paths, several, pa.array(texts, pa.string()))
    return ordered
