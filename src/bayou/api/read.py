"""How the short API reads: files side by side, rows filtered and columns cut.

Moments as the short API takes them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.api.argument_checks import checked_condition, checked_names, checked_number
from bayou.api.parallel_iteration import available_cores, groups, interleaved, joined
from bayou.errors import ArgumentError, CorruptTableError, SchemaError, SerializationError
from bayou.kernel import (
    CloseableIterator,
    Engine,
    LoadedVectors,
    Predicate,
    Scan,
    ScanFile,
    ScanState,
    Snapshot,
    closeable,
    read_scan_file,
    with_vectors,
)
from bayou.kernel.engine import PredicateEvaluator
from bayou.kernel.expressions.model import referenced_columns

__all__ = ["Reading", "Timestamp", "files_table", "milliseconds", "stated_row_count"]


pc: Any = pyarrow.compute

_MOST_THREADS = 16

_FILES_FIELDS: list[pa.Field[Any]] = [
    pa.field("path", pa.string(), False),
    pa.field("size", pa.int64(), False),
    pa.field("modification_time", pa.int64(), False),
    pa.field("partition_values", pa.map_(pa.string(), pa.string())),
    pa.field("num_records", pa.int64()),
    pa.field("stats", pa.string()),
]
_FILES_SCHEMA = pa.schema(_FILES_FIELDS)
_COUNT_FIELDS: list[pa.Field[Any]] = [
    pa.field("numRecords", pa.int64()),
    pa.field("tightBounds", pa.bool_()),
]
_COUNTS = pa.schema(_COUNT_FIELDS)


@dataclass(frozen=True, slots=True)
class Reading:
    """A read of one version, planned.

    Attributes:
        schema: of the batches.
    """

    schema: pa.Schema
    _engine: Engine
    _scan: Scan
    _state: ScanState
    _filter: PredicateEvaluator | None
    _limit: int | None

    @classmethod
    def plan(
        cls,
        engine: Engine,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        filter: Predicate | str | None,
        limit: int | None,
    ) -> Reading:
        """Plan what `TableHandle.to_arrow` and `to_batches` describe; raises as they do."""
        checked_number(limit, "limit", "a number of rows")
        wanted = checked_names(columns, "columns")
        names = list(snapshot.schema.names if wanted is None else wanted)
        metadata = [n for n in names if n in Scan.METADATA_COLUMNS]
        _refuse_unknown(snapshot, [n for n in names if n not in metadata])
        builder = (
            snapshot.scan_builder()
            .with_filter(checked_condition(filter, "filter"))
            .with_metadata_columns(metadata)
        )
        remaining = builder.build().remaining_filter
        needed = {path[0] for path in referenced_columns(remaining)} if remaining else set()
        read = [f for f in snapshot.schema if f.name in needed or f.name in names]
        scan = builder.with_read_schema(type(snapshot.schema)(tuple(read))).build()
        state = scan.scan_state(engine)
        types = {f.name: f for f in state.logical_arrow_schema}
        schema = pa.schema([types[n] for n in names])
        matching = None
        if remaining is not None:
            ready = engine.expressions.predicate_evaluator
            matching = ready(state.logical_schema, remaining)
        return cls(schema, engine, scan, state, matching, limit)

    def to_batches(self) -> pa.RecordBatchReader:
        """A stream: files are read side by side, memory holds a few batches for each core."""
        numbered = self._numbered()
        batches = CloseableIterator((batch for _, batch in numbered), numbered)
        return pa.RecordBatchReader.from_batches(self.schema, _closing(batches))

    def to_arrow(self) -> pa.Table:
        """All rows, file after file as the log lists them."""
        with self._numbered() as numbered:
            found = sorted(numbered, key=lambda pair: pair[0])
        return pa.Table.from_batches([batch for _, batch in found], self.schema)

    @closeable
    def _numbered(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches with numbers in the order of their files, as they get ready."""
        left = self._limit
        if left == 0:
            return
        # A limit is mostly met by the first files: nothing more than these is read ahead then.
        workers = 1 if left is not None else self._workers()
        files = self._scan.scan_files(self._engine).flat_map(lambda found: found.rows())
        prepared = (
            files.map(lambda file: [(file, {})])
            if left is not None
            else groups(
                with_vectors(
                    self._engine, self._state.table, files, lambda file: [file.deletion_vector]
                ),
                workers,
                lambda pair: pair[0].size,
            )
        )
        with (
            prepared,
            interleaved(map(self._read, prepared), workers=workers, ahead=2 * workers) as numbered,
        ):
            for number, batch in numbered:
                if left is None:
                    yield number, batch
                    continue
                yield number, batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    return

    def _workers(self) -> int:
        """A thread for each core; two where the files are far away, and threads mostly wait."""
        remote = "://" in self._state.table
        return min((2 if remote else 1) * available_cores(), _MOST_THREADS)

    def _read(
        self, prepared: Sequence[tuple[ScanFile, LoadedVectors]]
    ) -> Callable[[], CloseableIterator[pa.RecordBatch]]:
        """How to read the rows of files that match."""
        if len(prepared) == 1:
            return lambda: self._matching(*prepared[0])
        return lambda: joined(
            CloseableIterator(prepared).flat_map(lambda pair: self._matching(*pair))
        )

    @closeable
    def _matching(self, file: ScanFile, vectors: LoadedVectors) -> Iterator[pa.RecordBatch]:
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
    """The same, closed when the reader that takes from it is gone."""
    with batches:
        yield from batches


def files_table(engine: Engine, snapshot: Snapshot, filter: Predicate | str | None) -> pa.Table:
    """The live files of a version; see `SnapshotHandle.files`."""
    scan = snapshot.scan_builder().with_filter(filter).with_statistics().build()
    batches: list[pa.RecordBatch] = []
    for files in scan.scan_files(engine):
        add = files.selected().column("add")
        stats = pc.struct_field(add, "stats")
        batches.append(
            pa.RecordBatch.from_arrays(
                [
                    pc.struct_field(add, "path"),
                    pc.struct_field(add, "size"),
                    pc.struct_field(add, "modificationTime"),
                    pc.struct_field(add, "partitionValues"),
                    _counts(engine, snapshot, stats).column("numRecords"),
                    stats,
                ],
                schema=_FILES_SCHEMA,
            )
        )
    return pa.Table.from_batches(batches, schema=_FILES_SCHEMA)


def stated_row_count(engine: Engine, snapshot: Snapshot) -> int | None:
    """Rows by the statistics and deletion vectors of files; None where a file's don't tell."""
    scan = snapshot.scan_builder().with_statistics().build()
    rows = 0
    with scan.scan_files(engine) as batches:
        for files in batches:
            add = files.selected().column("add")
            counts = _counts(engine, snapshot, pc.struct_field(add, "stats"))
            # See `ScanFile.num_records`.
            certain = pc.or_(
                pc.is_null(pc.struct_field(add, "deletionVector")),
                pc.fill_null(pc.invert(counts.column("tightBounds")), False),
            )
            counts = counts.column("numRecords")
            if counts.null_count or certain.false_count:
                return None
            deleted = pc.struct_field(add, ["deletionVector", "cardinality"])
            rows += (pc.sum(counts).as_py() or 0) - (pc.sum(deleted).as_py() or 0)
    return rows


def _counts(engine: Engine, snapshot: Snapshot, stats: pa.Array[Any]) -> Any:
    """Rows of files by their statistics, and what these count; null where they don't say."""
    try:
        return engine.json.parse_json(stats, _COUNTS)
    except SerializationError as error:
        raise CorruptTableError(
            f"The log of {snapshot.path} holds statistics that aren't JSON: {error}",
            table=snapshot.path,
        ) from error


def _refuse_unknown(snapshot: Snapshot, names: Sequence[str]) -> None:
    known = set(snapshot.schema.names)
    unknown = [n for n in names if n not in known]
    if unknown:
        raise SchemaError(
            f"{snapshot.path} has no column {', '.join(map(repr, unknown))}; it has "
            f"{', '.join(snapshot.schema.names)}.",
            table=snapshot.path,
            column=unknown[0],
        )


Timestamp: TypeAlias = dt.datetime | str | int
"""A datetime (without zone: UTC), ISO 8601 text (without zone: UTC), or ms since the epoch."""


def milliseconds(timestamp: Timestamp) -> int:
    """Ms since the epoch.

    Raises:
        ArgumentError: it isn't a timestamp.
    """
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
            moment = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=dt.UTC)
            return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    raise ArgumentError(
        f"{timestamp!r} isn't a timestamp: give a datetime, ISO 8601 text such as "
        "'2024-01-05T10:00:00Z', or milliseconds since the epoch.",
        argument="timestamp",
    )
