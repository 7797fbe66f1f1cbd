"""The change data feed of a range of versions (PROTOCOL.md, Add CDC File)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from bayou.errors import (
    ArgumentError,
    ChangeDataFeedError,
    CorruptSchemaError,
    DataFileError,
    SchemaError,
    VersionNotFoundError,
)
from bayou.kernel.arrow.arrays import ConstantColumn, to_scalar
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
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
from bayou.protocol.actions import (
    CHANGE_TYPE,
    Metadata,
    is_change_data_feed_enabled,
    reserved_columns,
)
from bayou.protocol.schema import SchemaJsonError, StructType

_MAX_CACHED_BYTES = 32 << 20
"""Maximum total size in bytes of the commits of a range that are cached when they are checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """The rows that changed in a range of versions. Holds no engine and no open file.

    Attributes:
        commits: commits of the range; None if there is no commit between the start timestamp and
            the end timestamp.
        read_state: table state that determines the schema of the returned rows. If the table has
            column mapping, this is the state at the last version of the range. Otherwise, it is the
            state at the latest version.
        partitioned: whether the table may have had partition columns in the range of commits, or in
            the version before the range.

    Examples:
        >>> changes = table.changes(engine, CommitBoundary.at_version(0))
        >>> print(changes.start_version, changes.end_version, changes.schema.names)
    """

    commits: CommitRange | None
    read_state: TableState
    partitioned: bool

    @property
    def start_version(self) -> int | None:
        """The first version; None if the range contains no commit."""
        return None if self.commits is None else self.commits.start_version

    @property
    def end_version(self) -> int | None:
        """The last version; None if the range contains no commit."""
        return None if self.commits is None else self.commits.end_version

    @property
    def schema(self) -> StructType:
        """The table's columns, without change data feed columns (`_change_type`, ...)."""
        return self.read_state.schema

    def scan_builder(self) -> ChangeScanBuilder:
        """Return a builder for a scan of the changes."""
        return ChangeScanBuilder(self.read_state, self.commits, partitioned=self.partitioned)


def load_table_changes(
    engine: Engine,
    table: str,
    start: CommitBoundary,
    end: CommitBoundary | None = None,
    catalog: Catalog | None = None,
) -> TableChanges:
    """List the commits of a range, and check that all of them can be read as changes.

    Every commit of the range is read, so that errors are raised before the first row. Up to 32 MB
    of commits are cached; the other commits are read again later.

    Args:
        start: first version, or a timestamp for the first commit at or after the timestamp.
        end: last version, or a timestamp for the last commit at or before the timestamp. None means
            the latest version, and so does a version above the latest version.

    Raises:
        VersionNotFoundError: the first version doesn't exist yet, or log cleanup has deleted its
            log files. A timestamp after the last commit raises this error too.
        ArgumentError: the range ends before it starts.
        ChangeDataFeedError: the change data feed is disabled at a version of the range, or the
            range contains an incompatible schema change; the message names the version.
        SchemaError: a column of the table has a name that the change data feed reserves
            (`_change_type`, ...).
        UnsupportedFeatureError: a commit sets a protocol that isn't supported.
    """
    latest = load_table_state(engine, table, catalog=catalog)
    first = start_version(engine, latest, start)
    if first > latest.version:
        raise VersionNotFoundError(
            f"{table}: version {first} doesn't exist; the latest version is {latest.version}. Use "
            "that version or an earlier one.",
            table=table,
            latest=latest.version,
        )
    last = latest.version if end is None else end_version(engine, latest, end)
    if last < first:
        if _between_commits(start, end):
            return TableChanges(commits=None, read_state=latest, partitioned=False)
        raise ArgumentError(
            f"{table}: the requested changes start at version {first} and end at the earlier "
            f"version {last}. Use an end at or after the start.",
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
    commits, changes, starts_with_metadata = _check_commits(engine, commits, first_state)
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
            f"{table}: the name of column {reserved[0]!r} is reserved for the change data feed. "
            "Rename the column. Then start at the version that renamed it, or at a later version.",
            table=table,
            column=reserved[0],
        )
    return TableChanges(
        commits=commits,
        read_state=read_state,
        partitioned=any(m.partition_columns for m in metadata)
        or (starts_with_metadata and _was_partitioned(engine, latest, first)),
    )


def _was_partitioned(engine: Engine, latest: TableState, version: int) -> bool:
    """Whether the version before `version` has partition columns; True if it can't be loaded.

    The commit of `version` may replace a partitioned table by an unpartitioned one. The files that
    this commit removes then have partition values.
    """
    if version == 0:
        return False
    try:
        before = load_table_state(engine, latest.path, version - 1, catalog=latest.catalog)
    except VersionNotFoundError:
        return True
    return bool(before.partition_columns)


def _between_commits(start: CommitBoundary, end: CommitBoundary | None) -> bool:
    """Whether a range is between two ascending timestamps, and may therefore contain no commit."""
    if start.timestamp is None or end is None or end.timestamp is None:
        return False
    return start.timestamp <= end.timestamp


def _check_commits(
    engine: Engine, commits: CommitRange, first: TableState
) -> tuple[CommitRange, list[tuple[int, Metadata]], bool]:
    """Check that the change data feed is enabled in all versions of a range, and cache commits.

    Returns:
        Three values:

        - The range with cached commits.
        - (version, metadata) of each metadata change after the first version.
        - Whether the commit of the first version has a `metaData` action.
    """
    _check_enabled(commits, first.version, first.metadata)
    changes: list[tuple[int, Metadata]] = []
    first_sets_metadata = False
    files: list[FileStatus] = []
    remaining_bytes = _MAX_CACHED_BYTES
    with commits.commit_actions(engine, ()) as read:
        for commit in read:
            for action in commit.decoded(Metadata):
                first_sets_metadata = first_sets_metadata or commit.version == first.version
                if isinstance(action, Metadata) and commit.version > first.version:
                    _check_enabled(commits, commit.version, action)
                    changes.append((commit.version, action))
            file = commit.file
            if len(commit.data) <= remaining_bytes and not isinstance(file, InlineCommit):
                remaining_bytes -= len(commit.data)
                file = InlineCommit(
                    path=file.path,
                    size=file.size,
                    modification_time=file.modification_time,
                    content=commit.data,
                )
            files.append(file)
    return replace(commits, files=tuple(files)), changes, first_sets_metadata


def _check_enabled(commits: CommitRange, version: int, metadata: Metadata) -> None:
    if is_change_data_feed_enabled(metadata.configuration):
        return
    raise ChangeDataFeedError(
        f"{commits.table}: the changes from version {commits.start_version} to "
        f"{commits.end_version} can't be read, because delta.enableChangeDataFeed is disabled at "
        f"version {version}. Read a range of versions with the change data feed enabled, or "
        "compare two snapshots.",
        table=commits.table,
        version=version,
    )


def _check_shapes(
    table: str, shapes: dict[int, TableShape], commits: CommitRange, read_state: TableState
) -> None:
    """Check that the rows of all versions can be read with the schema of `read_state`.

    Args:
        shapes: schema and column mapping mode by version, for the range's first version and for
            each version that changes the metadata.
    """
    read = _shape(table, read_state.metadata)
    problems = {version: incompatibility(shape, read) for version, shape in shapes.items()}
    problem = next((p for p in reversed(problems.values()) if p is not None), None)
    if problem is None:
        return
    last = max(version for version, value in problems.items() if value is not None)
    changed_at = next((version for version in problems if version > last), None)
    prefix = (
        f"{table}: the changes from version {commits.start_version} to {commits.end_version} can't "
        "be read together, because "
    )
    if changed_at is None:
        raise ChangeDataFeedError(
            f"{prefix}the schema of version {last} is incompatible with the schema of version "
            f"{read_state.version}: {problem}. Without column mapping, all changes are read with "
            "the latest schema. Read snapshots instead.",
            table=table,
            version=last,
        )
    raise ChangeDataFeedError(
        f"{prefix}at version {changed_at} {problem}. Start at version {changed_at} or later"
        + (
            "."
            if read.mode == "none"
            else f", and read the changes up to version {changed_at - 1} separately."
        ),
        table=table,
        version=changed_at,
    )


def _shape(table: str, metadata: Metadata) -> TableShape:
    try:
        mode = column_mapping_mode(metadata.configuration)
        schema = StructType.from_json(metadata.schema_string)
    except (SchemaJsonError, ValueError) as error:
        raise CorruptSchemaError(
            f"{table}: the schema in the log is invalid: {error}. Restore an earlier version of "
            "the table.",
            table=table,
        ) from error
    return TableShape(schema=schema if mode != "none" else without_mapping(schema), mode=mode)


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

    Rows are in the order of the file. A row group is skipped if none of its rows can match the
    scan's filter. The rows of other row groups aren't filtered: the caller applies the scan's
    remaining filter.

    Args:
        vectors: deletion vectors that `prefetch_vectors` has read. This function reads the other
            deletion vectors of the file.

    Returns:
        Non-empty batches with `state.logical_arrow_schema`.

    Raises:
        DataFileError: the file or a deletion vector is missing or can't be read.
        CorruptTableError: the log has invalid information about the file.

    Examples:
        >>> scan = table.changes(engine, CommitBoundary.at_version(0)).scan_builder().build()
        >>> state = scan.change_state(engine)
        >>> with scan.change_files(engine) as files:
        ...     for file in files:
        ...         for batch in read_change_file(engine, state, file):
        ...             print(file.version, batch.num_rows)
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
    change_type = ConstantColumn(to_scalar(file.change_type, pa.string()))
    version = ConstantColumn(to_scalar(file.version, pa.int64()))
    micros = to_scalar(file.timestamp * 1000, pa.int64())
    timestamp = ConstantColumn(pc.cast(micros, schema.types[-1]))
    for first, end in row_group_ranges(engine, file.file, only, first_row_group, end_row_group):
        with read_scan_file(engine, scan_state, file.file, first, end, vectors=vectors) as batches:
            for rows in batches:
                batch = rows if only is None else _select_rows(only, rows)
                if batch.num_rows == 0:
                    continue
                change_types = (
                    _change_types(scan_state.table, file, batch)
                    if file.change_type is None
                    else change_type.array(batch.num_rows)
                )
                columns = [
                    *batch.columns[: len(schema) - 3],
                    change_types,
                    version.array(batch.num_rows),
                    timestamp.array(batch.num_rows),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _state_for(state: ScanState, file: ScanFile) -> ScanState:
    """Return a copy of the scan state with the partition columns of a file.

    These are the columns for which the `add` of the file has a partition value. They may differ
    from the partition columns of the table.
    """
    partition_columns = tuple(
        f.name for f in state.logical_schema if state.partition_key(f) in file.partition_values
    )
    state = replace(state, deletion_vectors=file.deletion_vector is not None)
    current = set(state.logical_schema.names).intersection(state.partition_columns)
    if set(partition_columns) == current:
        return state
    return replace(state, partition_columns=partition_columns, predicate=None)


def _select_rows(only: BitMap64, batch: pa.RecordBatch) -> pa.RecordBatch:
    others = read.selection_vector(only, batch.column(ROW_INDEX_COLUMN))
    if others is None:
        return batch.slice(0, 0)
    return batch.filter(pc.invert(others))


def _change_types(table: str, file: ChangeFile, batch: pa.RecordBatch) -> pa.Array[Any]:
    types: pa.Array[Any] = batch.column(CHANGE_TYPE)
    if types.null_count:
        path = file.file.status.path
        raise DataFileError(
            f"{table}: change data file {path} has rows without a value of {CHANGE_TYPE}. "
            "Restore the file, or read a range without the version that added the file.",
            table=table,
            file=path,
        )
    return types
