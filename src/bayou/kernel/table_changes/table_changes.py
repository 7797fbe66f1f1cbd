"""The change data feed of a range of versions (PROTOCOL.md, Add CDC File).

From a file of changes to rows of the change data feed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.errors import (
    ArgumentError,
    ChangeDataFeedError,
    CorruptSchemaError,
    DataFileError,
    SchemaError,
    VersionNotFoundError,
)
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.catalog import Catalog, InlineCommit
from bayou.kernel.deletion_vectors import read
from bayou.kernel.deletion_vectors.deleted_rows import row_group_ranges
from bayou.kernel.deletion_vectors.prefetch import LoadedVectors
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN, ScanState
from bayou.kernel.scan.transform import read_scan_file
from bayou.kernel.table_changes.change_file import ChangeFile, ChangeState
from bayou.kernel.table_changes.change_scan import ChangeScanBuilder
from bayou.kernel.table_changes.commit_range import (
    CommitBoundary,
    CommitRange,
    end_version,
    load_commit_range,
    start_version,
)
from bayou.kernel.table_changes.schema_changes import TableShape, incompatibility
from bayou.kernel.table_features.column_mapping import column_mapping_mode, without_mapping
from bayou.protocol.actions import CHANGE_TYPE, Metadata, is_feed_enabled, reserved_columns
from bayou.protocol.schema import SchemaJsonError, StructType

__all__ = ["TableChanges", "load_table_changes", "read_change_file"]


_KEPT_BYTES = 32 << 20
"""Commits of a range that are kept in memory from the check on; larger ones are read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """Rows that changed from one version to another; holds no engine and no open file.

    Attributes:
        commits: None where the range is empty: it lies between two commits.
        read_state: the version whose schema the rows have, the latest one; where the table has
            column mapping the range's last.
        partitioned: whether the table may have had partition columns anywhere in the range, or
            right before it.
    """

    commits: CommitRange | None
    read_state: TableState
    partitioned: bool

    @property
    def start_version(self) -> int | None:
        """The first version, None for an empty range."""
        return None if self.commits is None else self.commits.start_version

    @property
    def end_version(self) -> int | None:
        """The last version, None for an empty range."""
        return None if self.commits is None else self.commits.end_version

    @property
    def schema(self) -> StructType:
        """The table's columns, without those of the feed."""
        return self.read_state.schema

    def scan_builder(self) -> ChangeScanBuilder:
        """Plan a read of the changes."""
        return ChangeScanBuilder(self.read_state, self.commits, partitioned=self.partitioned)


def load_table_changes(
    engine: Engine,
    table: str,
    start: CommitBoundary,
    end: CommitBoundary | None = None,
    catalog: Catalog | None = None,
) -> TableChanges:
    """Find the range's commits and check that all of them can be read as changes.

    Every commit of the range is read for it, so that a range that is refused is so before the first
    row. 32 MB of them are kept; only commits beyond that are read again for their files.

    Args:
        start: part of the range; a time is that of the first commit at or after it.
        end: part of the range, the latest version where it is None or above that; a time is that of
            the last commit at or before it.
        catalog: the one that manages the table.

    Raises:
        VersionNotFoundError: the range begins after the latest version, or before the earliest that
            can be rebuilt; or a time is after the last commit.
        ArgumentError: it ends before it begins.
        ChangeDataFeedError: the feed is off at a version of the range, or a change of schema lies
            in it that the rows can't be read across; names the version.
        SchemaError: a column of the table has the name of one of the feed's.
        UnsupportedFeatureError: a commit sets a protocol that can't be read.
    """
    latest = load_table_state(engine, table, catalog=catalog)
    first = start_version(engine, latest, start)
    if first > latest.version:
        raise VersionNotFoundError(
            f"{table} has no version {first}; its latest version is {latest.version}.",
            table=table,
            latest=latest.version,
        )
    last = latest.version if end is None else end_version(engine, latest, end)
    if last < first:
        if _between_commits(start, end):
            return TableChanges(commits=None, read_state=latest, partitioned=False)
        raise ArgumentError(
            f"The changes of {table} are asked for from version {first} to version {last}, which "
            "is before it.",
            argument="end",
        )
    last = min(last, latest.version)
    first_state = latest
    if first < latest.version:
        first_state = load_table_state(engine, table, first, catalog=catalog)
    commits = load_commit_range(
        engine,
        table,
        first,
        last,
        query_start_boundary=start,
        query_end_boundary=end,
        catalog=catalog,
    )
    commits, changes, begins_with_metadata = _checked(engine, commits, first_state)
    metadata = [first_state.metadata, *(m for _, m in changes), latest.metadata]
    shapes = {first: _shape(table, first_state.metadata)}
    shapes.update((version, _shape(table, m)) for version, m in changes)
    mapped = any(_shape(table, m).mode != "none" for m in metadata)
    read_state = latest
    if mapped and last < latest.version:
        read_state = load_table_state(engine, table, last, catalog=catalog)
    _check_shapes(table, shapes, commits, read_state)
    reserved = reserved_columns(read_state.schema)
    if reserved:
        raise SchemaError(
            f"{table} has a column {reserved[0]!r}, a name that belongs to the change data feed. "
            "Rename the column, then changes can be read from that version on.",
            table=table,
            column=reserved[0],
        )
    return TableChanges(
        commits=commits,
        read_state=read_state,
        partitioned=any(m.partition_columns for m in metadata)
        or (begins_with_metadata and _was_partitioned(engine, latest, first)),
    )


def _was_partitioned(engine: Engine, latest: TableState, version: int) -> bool:
    """Whether files that a version removes may be of partition columns that it takes away."""
    if version == 0:
        return False
    try:
        before = load_table_state(engine, latest.path, version - 1, catalog=latest.catalog)
    except VersionNotFoundError:
        return True
    return bool(before.partition_columns)


def _between_commits(start: CommitBoundary, end: CommitBoundary | None) -> bool:
    """Whether a range is told by times in order, so that it may hold no commit."""
    if start.timestamp is None or end is None or end.timestamp is None:
        return False
    return start.timestamp <= end.timestamp


def _checked(
    engine: Engine, commits: CommitRange, first: TableState
) -> tuple[CommitRange, list[tuple[int, Metadata]], bool]:
    """The range, metadata that commits behind the first one set, and whether the first sets some.

    Every version must have the feed on. Commits that were read for that are kept with the range,
    as far as there is room, so that they aren't read again for their files.
    """
    _check_enabled(commits, first.version, first.metadata)
    found: list[tuple[int, Metadata]] = []
    first_sets_some = False
    files: list[FileStatus] = []
    room = _KEPT_BYTES
    with commits.commit_actions(engine, ()) as read:
        for commit in read:
            for action in commit.decoded(Metadata):
                first_sets_some = first_sets_some or commit.version == first.version
                if isinstance(action, Metadata) and commit.version > first.version:
                    _check_enabled(commits, commit.version, action)
                    found.append((commit.version, action))
            file = commit.file
            if len(commit.data) <= room and not isinstance(file, InlineCommit):
                room -= len(commit.data)
                file = InlineCommit(
                    path=file.path,
                    size=file.size,
                    modification_time=file.modification_time,
                    content=commit.data,
                )
            files.append(file)
    return replace(commits, files=tuple(files)), found, first_sets_some


def _check_enabled(commits: CommitRange, version: int, metadata: Metadata) -> None:
    if is_feed_enabled(metadata.configuration):
        return
    raise ChangeDataFeedError(
        f"{commits.table} didn't record its changes at version {version} "
        f"(delta.enableChangeDataFeed is off there), so the changes from version "
        f"{commits.start_version} to {commits.end_version} can't be read. Ask for a range in which "
        "it is on throughout; what happened before can be told from two snapshots only.",
        table=commits.table,
        version=version,
    )


def _check_shapes(
    table: str, shapes: dict[int, TableShape], commits: CommitRange, read_state: TableState
) -> None:
    """Raise where rows of the range can't be read with the read schema.

    Args:
        shapes: those of the range by the versions that set them, ascending.
    """
    read = _shape(table, read_state.metadata)
    problems = {version: incompatibility(shape, read) for version, shape in shapes.items()}
    problem = next((p for p in reversed(problems.values()) if p is not None), None)
    if problem is None:
        return
    last = max(version for version, found in problems.items() if found is not None)
    changed_at = next((version for version in problems if version > last), None)
    what = (
        f"The changes of {table} from version {commits.start_version} to {commits.end_version} "
        "can't be read together: "
    )
    if changed_at is None:
        raise ChangeDataFeedError(
            f"{what}without column mapping they are read with the latest schema, that of version "
            f"{read_state.version}, and since version {last} {problem}. Read snapshots instead.",
            table=table,
            version=last,
        )
    raise ChangeDataFeedError(
        f"{what}at version {changed_at} {problem}. Begin at version {changed_at} or later"
        + ("." if read.mode == "none" else f", and read what was up to {changed_at - 1} apart."),
        table=table,
        version=changed_at,
    )


def _shape(table: str, metadata: Metadata) -> TableShape:
    try:
        mode = column_mapping_mode(metadata.configuration)
        schema = StructType.from_json(metadata.schema_string)
    except (SchemaJsonError, ValueError) as error:
        raise CorruptSchemaError(
            f"The schema in the log of {table} can't be read: {error}.", table=table
        ) from error
    return TableShape(schema=schema if mode != "none" else without_mapping(schema), mode=mode)


pc: Any = pyarrow.compute


@closeable
def read_change_file(
    engine: Engine,
    state: ChangeState,
    file: ChangeFile,
    first_row_group: int = 0,
    end_row_group: int | None = None,
    *,
    vectors: LoadedVectors | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the changed rows of a file, or of some of its row groups.

    Rows come in the order of the file. The scan's remaining filter isn't applied to them, but row
    groups that hold no row for it are left out.

    Args:
        vectors: deletion vectors that have been read (`with_vectors`); others are read here.

    Returns:
        Batches in `state.logical_arrow_schema`, none of them empty.

    Raises:
        DataFileError: the file or a deletion vector is missing or can't be read; names it.
        CorruptTableError: the log describes the file wrongly.
    """
    schema = state.logical_arrow_schema
    scan_state = _state_for(state.scan_state, file.file)
    only: BitMap64 | None = None
    if not scan_state.logical_schema.fields:  # a batch without columns has no rows
        scan_state = replace(scan_state, metadata_columns=(ROW_INDEX_COLUMN,))
    if file.change_type is None:
        scan_state = replace(scan_state, metadata_columns=(CHANGE_TYPE,))
    if file.only is not None:
        scan_state = replace(scan_state, metadata_columns=(ROW_INDEX_COLUMN,))
        only = (vectors or {}).get(file.only)
        if only is None:
            only = read.load(engine, scan_state.table, file.only)
    version = pa.scalar(file.version, pa.int64())
    timestamp: Any = pa.scalar(file.timestamp * 1000, schema.types[-1])
    for first, end in row_group_ranges(engine, file.file, only, first_row_group, end_row_group):
        with read_scan_file(engine, scan_state, file.file, first, end, vectors=vectors) as batches:
            for found in batches:
                batch = found if only is None else _only(only, found)
                if batch.num_rows == 0:
                    continue
                change_types = (
                    _recorded_types(scan_state.table, file, batch)
                    if file.change_type is None
                    else pa.repeat(pa.scalar(file.change_type), batch.num_rows)
                )
                columns = [
                    *batch.columns[: len(schema) - 3],
                    change_types,
                    pa.repeat(version, batch.num_rows),
                    pa.repeat(timestamp, batch.num_rows),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _state_for(state: ScanState, file: ScanFile) -> ScanState:
    """The state for a file that may be older than a change of the table's partition columns.

    A file doesn't hold the columns that have a value in the log, and holds the others.
    """
    inside = tuple(
        f.name for f in state.logical_schema if state.partition_key(f) in file.partition_values
    )
    state = replace(state, deletion_vectors=file.deletion_vector is not None)
    if set(inside) == set(state.logical_schema.names).intersection(state.partition_columns):
        return state
    return replace(state, partition_columns=inside, predicate=None)


def _only(only: BitMap64, batch: pa.RecordBatch) -> pa.RecordBatch:
    unmarked = read.selection(only, batch.column(ROW_INDEX_COLUMN))
    if unmarked is None:
        return batch.slice(0, 0)
    return batch.filter(pc.invert(unmarked))


def _recorded_types(table: str, file: ChangeFile, batch: pa.RecordBatch) -> pa.Array[Any]:
    types: pa.Array[Any] = batch.column(CHANGE_TYPE)
    if types.null_count:
        path = file.file.status.path
        raise DataFileError(
            f"Change data file {path} of {table} has rows without {CHANGE_TYPE}, the column that "
            "says what happened to them.",
            table=table,
            file=path,
        )
    return types
