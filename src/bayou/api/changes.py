"""The short API for changes: rows of the change data feed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from bayou.errors import ArgumentError, SchemaError
from bayou.kernel import Engine, Predicate, TableChanges, read_change_file
from bayou.kernel.arrow_types import from_arrow_schema
from bayou.kernel.predicates.model import referenced_columns
from bayou.protocol.change_data import CHANGE_COLUMNS
from bayou.protocol.schema import StructType

__all__ = ["ChangesHandle"]


class ChangesHandle:
    """The changes of a range of versions; safe in threads.

    Each row has the table's columns and `_change_type` (`insert`, `delete`, `update_preimage`,
    `update_postimage`), `_commit_version` and `_commit_timestamp`. Rows come commit after commit.
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
        """The first version, None where the range is between two commits and so has no rows."""
        return self._changes.start_version

    @property
    def end_version(self) -> int | None:
        """The last version, where a consumer that goes on begins behind; None as above."""
        return self._changes.end_version

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of `to_arrow`."""
        return self._changes.scan_builder().build().change_state(self._engine).logical_arrow_schema

    @property
    def kernel(self) -> TableChanges:
        """The kernel's changes."""
        return self._changes

    def to_arrow(
        self, columns: Sequence[str] | None = None, filter: Predicate | str | None = None
    ) -> pa.Table:
        """The changed rows, all in memory.

        Args:
            columns: names of top-level columns or of the feed's own, in the order wanted; None for
                all.
            filter: SQL text such as `"_change_type <> 'update_preimage' AND id > 3"`, or a
                `Predicate`; rows for which it is true.

        Raises:
            PredicateError: the filter can't be understood.
            SchemaError: an unknown column.
            DataFileError: a data file is missing (VACUUM takes those of old changes) or can't be
                read.
        """
        return self.to_batches(columns, filter).read_all()

    def to_batches(
        self, columns: Sequence[str] | None = None, filter: Predicate | str | None = None
    ) -> pa.RecordBatchReader:
        """The changed rows, batch after batch; memory stays flat. Arguments as of `to_arrow`."""
        return _read_batches(self._engine, self._changes, columns, filter)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_batches())


def _read_batches(
    engine: Engine,
    changes: TableChanges,
    columns: Sequence[str] | None,
    filter: Predicate | str | None,
) -> pa.RecordBatchReader:
    if isinstance(columns, str):
        raise ArgumentError(
            f"columns is the text {columns!r}; give a list of names, [{columns!r}].",
            argument="columns",
        )
    known = [*changes.schema.names, *CHANGE_COLUMNS.names]
    names = known if columns is None else list(columns)
    _refuse_unknown(changes.read_state.path, names, known)
    builder = changes.scan_builder().with_filter(filter)
    remaining = builder.build().remaining_filter
    needed = {*names, *(path[0] for path in (referenced_columns(remaining) if remaining else ()))}
    fields = tuple(f for f in changes.schema if f.name in needed)
    scan = builder.with_read_schema(StructType(fields)).build()
    state = scan.change_state(engine)
    types = {f.name: f for f in state.logical_arrow_schema}
    matching = (
        None
        if remaining is None
        else engine.expressions.predicate_evaluator(
            from_arrow_schema(state.logical_arrow_schema), remaining
        )
    )

    def batches() -> Iterator[pa.RecordBatch]:
        files = scan.change_files(engine)
        with files.flat_map(lambda file: read_change_file(engine, state, file)) as found:
            for batch in found:
                rows = batch
                if matching is not None:
                    mask = matching.eval(batch)
                    if mask.true_count == 0:
                        continue
                    rows = batch.filter(mask)
                yield rows.select(names)

    return pa.RecordBatchReader.from_batches(pa.schema([types[n] for n in names]), batches())


def _refuse_unknown(table: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = [n for n in names if n not in known]
    if unknown:
        raise SchemaError(
            f"The changes of {table} have no column {', '.join(map(repr, unknown))}; they have "
            f"{', '.join(known)}.",
            table=table,
            column=unknown[0],
        )
