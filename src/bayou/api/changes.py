"""The change data feed of a table: `ChangesHandle`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bayou.api.argument_checks import checked_names
from bayou.api.conditions import Condition, checked_condition
from bayou.api.rows.parallel_iteration import interleaved, reader_threads
from bayou.errors import SchemaError
from bayou.kernel import (
    ChangeFile,
    ChangeScan,
    ChangeState,
    CloseableIterator,
    Engine,
    LoadedVectors,
    TableChanges,
    closeable,
    prefetch_vectors,
    read_change_file,
)
from bayou.kernel.engine import PredicateEvaluator
from bayou.kernel.expressions.model import referenced_columns
from bayou.protocol.actions import CHANGE_COLUMNS
from bayou.protocol.schema import StructType

_BATCHES_AHEAD = 2


class ChangesHandle:
    """The change data feed of a range of versions; thread-safe.

    Each row has the table's columns and `_change_type` (`insert`, `delete`, `update_preimage`,
    `update_postimage`), `_commit_version` and `_commit_timestamp`. Rows are in commit order.

    Examples:
        >>> changes = bayou.table("lake/orders").changes(0)
        >>> print(changes.end_version, changes.to_arrow().num_rows)
    """

    __slots__ = ("_changes", "_engine")

    def __init__(self, engine: Engine, changes: TableChanges) -> None:
        self._engine = engine
        self._changes = changes

    def __repr__(self) -> str:
        path = self._changes.read_state.path
        return f"bayou.table({path!r}).changes({self.start_version}, {self.end_version})"

    @property
    def start_version(self) -> int | None:
        """The first version of the range; None if the range contains no commit."""
        return self._changes.start_version

    @property
    def end_version(self) -> int | None:
        """The last version of the range; None if the range contains no commit.

        To read only later changes next time, start at `end_version + 1`.
        """
        return self._changes.end_version

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of the rows that `to_arrow` returns by default."""
        return self._changes.scan_builder().build().change_state(self._engine).logical_arrow_schema

    @property
    def kernel(self) -> TableChanges:
        """The `TableChanges` of the kernel."""
        return self._changes

    def to_arrow(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pa.Table:
        """Read the rows of the change data feed into memory.

        Args:
            columns: columns in result order; None for all columns. The list may contain the
                table's top-level columns, and also `_change_type`, `_commit_version` and
                `_commit_timestamp`.
            filter: return only matching rows; an SQL string such as
                `"_change_type <> 'update_preimage' AND id > 3"`, or a `Predicate`.

        Raises:
            PredicateError: the filter isn't valid.
            SchemaError: a column doesn't exist.
            DataFileError: a data file can't be read, or is missing because VACUUM deleted it.
        """
        return self.to_batches(columns, filter).read_all()

    def to_batches(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pa.RecordBatchReader:
        """Stream the changed rows in bounded memory. See `to_arrow` for the arguments."""
        reading = _PlannedRead.plan(self._engine, self._changes, columns, filter)
        return pa.RecordBatchReader.from_batches(reading.schema, reading.batches())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_batches())


@dataclass(frozen=True, slots=True)
class _PlannedRead:
    schema: pa.Schema
    engine: Engine
    scan: ChangeScan
    state: ChangeState
    filter: PredicateEvaluator | None

    @classmethod
    def plan(
        cls,
        engine: Engine,
        changes: TableChanges,
        columns: Sequence[str] | None,
        filter: Condition | None,
    ) -> _PlannedRead:
        known = [*changes.schema.names, *CHANGE_COLUMNS.names]
        requested = checked_names(columns, "columns")
        names = known if requested is None else list(requested)
        _check_columns(changes.read_state.path, names, known)
        builder = changes.scan_builder().with_filter(checked_condition(filter, "filter"))
        remaining = builder.build().remaining_filter
        filtered = {path[0] for path in referenced_columns(remaining)} if remaining else set()
        fields = tuple(f for f in changes.schema if f.name in filtered or f.name in names)
        scan = builder.with_read_schema(StructType(fields)).build()
        state = scan.change_state(engine)
        types = {f.name: f for f in state.logical_arrow_schema}
        matching = None
        if remaining is not None:
            columns_read = StructType((*fields, *CHANGE_COLUMNS))
            matching = engine.expressions.predicate_evaluator(columns_read, remaining)
        return cls(pa.schema([types[n] for n in names]), engine, scan, state, matching)

    @closeable
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in commit order; files are read ahead in threads."""
        table = self.state.scan_state.table
        workers = reader_threads(table)
        files = self.scan.change_files(self.engine)
        with (
            prefetch_vectors(self.engine, table, files, lambda f: f.deletion_vectors) as prepared,
            interleaved(
                map(self._read, prepared), workers=workers, ahead=_BATCHES_AHEAD, in_order=True
            ) as numbered,
        ):
            for _, batch in numbered:
                yield batch

    def _read(
        self, prepared: tuple[ChangeFile, LoadedVectors]
    ) -> Callable[[], CloseableIterator[pa.RecordBatch]]:
        return lambda: self._matching_rows(*prepared)

    @closeable
    def _matching_rows(self, file: ChangeFile, vectors: LoadedVectors) -> Iterator[pa.RecordBatch]:
        with read_change_file(self.engine, self.state, file, vectors=vectors) as batches:
            for batch in batches:
                rows = batch if self.filter is None else batch.filter(self.filter.eval(batch))
                if rows.num_rows:
                    yield rows.select(self.schema.names)


def _check_columns(table: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = [n for n in names if n not in known]
    if unknown:
        raise SchemaError(
            f"{table}: the change data feed has no column {', '.join(map(repr, unknown))}. Its "
            f"columns are {', '.join(known)}.",
            table=table,
            column=unknown[0],
        )
