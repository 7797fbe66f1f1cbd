"""Reads of rows: files are read in parallel, rows are filtered, columns are selected."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.api.argument_checks import checked_names, checked_number
from bayou.api.conditions import Condition, checked_condition
from bayou.api.rows.parallel_iteration import (
    grouped_files,
    interleaved,
    reader_threads,
)
from bayou.errors import ArgumentError, CorruptTableError, SchemaError, SerializationError
from bayou.kernel import (
    CloseableIterator,
    Engine,
    LoadedVectors,
    Predicate,
    Scan,
    ScanFile,
    ScanFileBatch,
    ScanState,
    Snapshot,
    closeable,
    prefetch_vectors,
    read_scan_file,
)
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.joined_batches import joined_batches
from bayou.kernel.engine import PredicateEvaluator
from bayou.kernel.expressions.model import referenced_columns
from bayou.suggestions import did_you_mean

_BATCHES_AHEAD = 2
"""Number of batches that each thread reads ahead if the rows are read in order."""

_COUNT_FIELDS: list[pa.Field[Any]] = [
    pa.field("numRecords", pa.int64()),
    pa.field("tightBounds", pa.bool_()),
]
_COUNTS = pa.schema(_COUNT_FIELDS)
_LEADING_COUNT = r'^\{"numRecords":(?P<count>[0-9]{1,18})[,}]'
_TIGHT_BOUNDS = b'"tightBounds"'


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTransform:
    """A transformation of batches, which runs in the threads that read files.

    Attributes:
        schema: schema of the transformed batches.
        apply: function that returns the transformed batch; called in several threads.
    """

    schema: pa.Schema
    apply: Callable[[pa.RecordBatch], pa.RecordBatch]

    def changed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Return the transformed batch in a sequence; the sequence is empty if no rows are left."""
        rows = self.apply(batch)
        return (rows,) if rows.num_rows else ()


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """A read of one table version, with columns, filter and limit."""

    schema: pa.Schema
    _engine: Engine
    _scan: Scan
    _state: ScanState
    _filter: PredicateEvaluator | None
    _limit: int | None
    _left_out: frozenset[tuple[str, str | None]] = frozenset()

    @classmethod
    def plan(
        cls,
        engine: Engine,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        filter: Condition | None,
        limit: int | None,
        *,
        skipping: Predicate | None = None,
        dictionary_columns: Iterable[str] = (),
        time_zone: str = "UTC",
    ) -> PlannedRead:
        """Plan a read; see `TableHandle.to_arrow` for the other arguments and errors.

        Args:
            skipping: a condition that skips files and row groups. Rows aren't filtered by it: the
                result can contain rows that don't match it.
            dictionary_columns: columns to return as dictionary arrays of strings. Columns that
                `filter` references are returned as strings.
            time_zone: time zone in which to interpret a partition value of type timestamp, if the
                value has no time zone.
        """
        checked_number(limit, "limit", "a number of rows")
        requested = checked_names(columns, "columns")
        names = list(snapshot.schema.names if requested is None else requested)
        metadata = [n for n in names if n in Scan.METADATA_COLUMNS]
        check_columns(snapshot, [n for n in names if n not in metadata])
        condition = checked_condition(filter, "filter")
        builder = snapshot.scan_builder().with_filter(condition).with_metadata_columns(metadata)
        builder = builder.with_time_zone(time_zone)
        remaining = builder.build().remaining_filter
        needed = {path[0] for path in referenced_columns(remaining)} if remaining else set()
        if skipping is not None:
            if isinstance(condition, str):
                from bayou.kernel.expressions.sql.parser import parse_predicate

                condition = parse_predicate(condition)
            builder = builder.with_filter(skipping if condition is None else condition & skipping)
        read = [f for f in snapshot.schema if f.name in needed or f.name in names]
        scan = (
            builder.with_read_schema(type(snapshot.schema)(tuple(read)))
            .with_dictionary_columns(set(dictionary_columns) - needed)
            .build()
        )
        state = scan.scan_state(engine)
        types = {f.name: f for f in state.logical_arrow_schema}
        schema = pa.schema([types[n] for n in names])
        matching = None
        if remaining is not None:
            evaluator = engine.expressions.predicate_evaluator
            matching = evaluator(state.logical_schema, remaining)
        return cls(schema, engine, scan, state, matching, limit)

    def to_batches(
        self, *, in_order: bool = False, transform: BatchTransform | None = None
    ) -> pa.RecordBatchReader:
        """Stream the rows; files are read in parallel, with a few batches in memory per core.

        Args:
            in_order: whether the rows are in the order of the files in the log.
            transform: a transformation of each batch, which is applied before the limit.
        """
        numbered = self._numbered(in_order=in_order, transform=transform)
        batches = CloseableIterator((batch for _, batch in numbered), numbered)
        schema = self.schema if transform is None else transform.schema
        return pa.RecordBatchReader.from_batches(schema, _closing(batches))

    def to_arrow(self) -> pa.Table:
        """Read all rows, in the order of the files in the log."""
        with self._numbered() as numbered:
            in_order = sorted(numbered, key=lambda pair: pair[0])
        return pa.Table.from_batches([batch for _, batch in in_order], self.schema)

    def file_keys(self) -> frozenset[tuple[str, str | None]]:
        """Return the keys of the files to read: path and deletion vector id."""
        files = self._scan.scan_files(self._engine).flat_map(lambda batch: batch.rows())
        with files:
            return frozenset(file.add.key for file in files) - self._left_out

    def without_files(self, keys: frozenset[tuple[str, str | None]]) -> PlannedRead:
        """Return a copy of this read that skips the files with these keys; see `file_keys`."""
        return replace(self, _left_out=self._left_out | keys)

    @closeable
    def _numbered(
        self, *, in_order: bool = False, transform: BatchTransform | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        left = self._limit
        if left == 0:
            return
        # With a limit, nothing is read ahead, because the first files usually have enough rows.
        workers = 1 if left is not None else reader_threads(self._state.table)
        files = self._scan.scan_files(self._engine).flat_map(self._files_of)
        prepared = (
            files.map(lambda file: [(file, {})])
            if left is not None
            else grouped_files(
                prefetch_vectors(
                    self._engine, self._state.table, files, lambda file: [file.deletion_vector]
                ),
                workers,
                lambda pair: pair[0].size,
            )
        )
        with (
            prepared,
            interleaved(
                (self._read(group, transform) for group in prepared),
                workers=workers,
                ahead=_BATCHES_AHEAD if in_order else 2 * workers,
                in_order=in_order,
            ) as numbered,
        ):
            for number, batch in numbered:
                if left is None:
                    yield number, batch
                    continue
                yield number, batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    return

    def _files_of(self, batch: ScanFileBatch) -> Iterator[ScanFile]:
        if not self._left_out:
            return batch.rows()
        return (file for file in batch.rows() if file.add.key not in self._left_out)

    def _read(
        self, prepared: Sequence[tuple[ScanFile, LoadedVectors]], transform: BatchTransform | None
    ) -> Callable[[], CloseableIterator[pa.RecordBatch]]:
        def opened() -> CloseableIterator[pa.RecordBatch]:
            if len(prepared) == 1:
                batches = self._matching_rows(*prepared[0])
            else:
                files = CloseableIterator(prepared)
                batches = joined_batches(files.flat_map(lambda pair: self._matching_rows(*pair)))
            return batches if transform is None else batches.flat_map(transform.changed)

        return opened

    @closeable
    def _matching_rows(self, file: ScanFile, vectors: LoadedVectors) -> Iterator[pa.RecordBatch]:
        names = self.schema.names
        with read_scan_file(self._engine, self._state, file, vectors=vectors) as batches:
            for batch in batches:
                rows = batch
                if self._filter is not None:
                    mask = self._filter.eval(batch)
                    if mask.true_count == 0:
                        continue
                    rows = batch.filter(mask)
                if rows.num_rows:
                    yield rows if rows.schema.equals(self.schema) else rows.select(names)


def _closing(batches: CloseableIterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield from `batches`; close `batches` when the consumer drops the iterator."""
    with batches:
        yield from batches


def row_count_from_statistics(engine: Engine, snapshot: Snapshot) -> int | None:
    """Return the number of rows according to the log; None if the count of a file is unknown."""
    scan = snapshot.scan_builder().with_statistics().build()
    rows = 0
    with scan.scan_files(engine) as batches:
        for files in batches:
            add = files.selected().column("add")
            counts = statistics_counts(engine, snapshot, pc.struct_field(add, "stats"))
            # Whether `numRecords` includes deleted rows for certain; see `ScanFile.num_records`.
            exact = pc.or_(
                pc.is_null(pc.struct_field(add, "deletionVector")),
                pc.fill_null(pc.invert(counts.column("tightBounds")), False),
            )
            counts = counts.column("numRecords")
            deleted = pc.struct_field(add, ["deletionVector", "cardinality"])
            if counts.null_count or exact.false_count:
                return None
            # Other writers may write -1 for an unknown number.
            if pc.any(pc.less(counts, pc.fill_null(deleted, 0))).as_py():
                return None
            rows += (pc.sum(counts).as_py() or 0) - (pc.sum(deleted).as_py() or 0)
    return rows


def statistics_counts(engine: Engine, snapshot: Snapshot, stats: pa.Array[Any]) -> Any:
    """Parse `numRecords` and `tightBounds` from statistics; a missing value becomes null."""
    counts = _leading_counts(stats)
    if counts is not None:
        return counts
    try:
        return engine.json.parse_json(stats, _COUNTS)
    except SerializationError as error:
        raise CorruptTableError(
            f"{snapshot.path}: file statistics in the log aren't JSON: {error}. Restore an earlier "
            "version of the table.",
            table=snapshot.path,
        ) from error


def _leading_counts(stats: Any) -> pa.RecordBatch | None:
    """Parse `numRecords` with a regular expression, which is faster than a JSON parser.

    This requires that the statistics of all files start with `numRecords`, as most writers write
    them, and that no file has `tightBounds`. Otherwise, the result is None.
    """
    if len(stats) == 0 or _TIGHT_BOUNDS in bytes(stats.buffers()[2] or b""):
        return None
    found = pc.extract_regex(stats, _LEADING_COUNT)
    if found.null_count > stats.null_count:
        return None
    counts = pc.cast(pc.struct_field(found, "count"), pa.int64())
    return pa.RecordBatch.from_arrays([counts, pa.nulls(len(stats), pa.bool_())], schema=_COUNTS)


def check_columns(snapshot: Snapshot, names: Sequence[str]) -> None:
    """Raise a `SchemaError` if the table lacks one of the columns."""
    known = set(snapshot.schema.names)
    unknown = [n for n in names if n not in known]
    if unknown:
        raise SchemaError(
            f"{snapshot.path}: there is no column {', '.join(map(repr, unknown))}."
            f"{did_you_mean(unknown[0], known)} The columns are "
            f"{', '.join(snapshot.schema.names)}.",
            table=snapshot.path,
            column=unknown[0],
        )


Timestamp: TypeAlias = dt.datetime | str | int
"""A datetime, an ISO 8601 string, or milliseconds since the epoch. Datetimes and strings without a
time zone are in UTC."""


def milliseconds(timestamp: Timestamp) -> int:
    """Convert a timestamp to milliseconds since the epoch."""
    match timestamp:
        case bool():
            pass
        case int():
            return timestamp
        case str():
            try:
                return milliseconds(dt.datetime.fromisoformat(timestamp))
            except ValueError:
                pass
        case dt.datetime():
            aware = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=dt.UTC)
            return (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    raise ArgumentError(
        f"timestamp: {timestamp!r} isn't a timestamp. Give a datetime, an ISO 8601 string such as "
        "'2024-01-05T10:00:00Z', or milliseconds since the epoch.",
        argument="timestamp",
    )
