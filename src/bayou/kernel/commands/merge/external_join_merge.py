"""Planning and commit of a merge whose rows another engine joins.

That engine chooses the clause for each row and computes the new values; `MatchedRowsTask` writes
them to files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from bayou.errors import MultipleMatchesError, SchemaError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.commands.merge.assignments import evolved_schema
from bayou.kernel.commands.merge.clauses import MergeClause, check_clauses
from bayou.kernel.commands.merge.execution import commit_merge, merge_counts, merge_parameters
from bayou.kernel.commands.merge.plan import MergeDefinition
from bayou.kernel.commands.merge.result import MergeMetrics
from bayou.kernel.commands.row_changes.matched_rows import check_assigned
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.state import RowChangeState
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol.column_rules import identity_column
from bayou.protocol.properties import TYPE_WIDENING
from bayou.protocol.schema import StructField, StructType

__all__ = ["ExternalJoinMerge", "multiple_matches_error"]


class ExternalJoinMerge:
    """A started merge with an external join, in the process that commits.

    Args:
        table: the version that is read.
        source: columns of the source.
        definition: the merge; its SQL is only recorded in the history.
        assigned: for each clause, the target or new source columns that it sets; None for all
            columns.
        started: `time.perf_counter()` at the start, for the metrics.
        application: transaction identifier that the commit records, even if nothing changes.
        transaction_ids, table_properties: see `merge`.

    Raises:
        ArgumentError: the clauses are incompatible.
        SchemaError: a column is unknown or can't be set.
        ConstraintViolationError, UnsupportedFeatureError: the table can't be changed.

    Attributes:
        schema: the table's resulting schema.
        state: state for changing rows.
    """

    def __init__(
        self,
        engine: Engine,
        table: TableState,
        source: StructType,
        definition: MergeDefinition,
        assigned: Sequence[Sequence[str] | None],
        *,
        engine_info: str,
        user_metadata: str | None = None,
        started: float | None = None,
        application: tuple[str, int] | None = None,
        transaction_ids: Mapping[str, int] | None = None,
        table_properties: Mapping[str, str] | None = None,
    ) -> None:
        self._started = time.perf_counter() if started is None else started
        progress = list((transaction_ids or {}).items())
        progress += [] if application is None else [application]
        self._commits_progress = bool(progress)
        check_clauses(definition.clauses)
        self._table = table
        self._clauses = definition.clauses
        evolved = _evolved_schema(table, source, definition, assigned)
        self._assigned = [
            _columns(table, evolved, source, names, clause)
            for clause, names in zip(definition.clauses, assigned, strict=True)
        ]
        builder = (
            TransactionBuilder(
                table=table.path,
                read_state=table,
                engine_info=engine_info,
                operation=Operation.MERGE,
            )
            .with_operation_parameters(merge_parameters(definition))
            .with_user_metadata(user_metadata)
            .with_table_properties(table_properties or {})
        )
        data_schema = self._data_schema(table, evolved)
        if data_schema != table.schema:
            builder = builder.with_schema(data_schema)
        for name, version in progress:
            builder = builder.with_transaction_id(name, version)
        self._transaction = builder.with_schema_evolution(definition.schema_evolution).build(engine)
        self.state = RowChangeState.of(engine, self._transaction)
        self.schema = self.state.transaction_state.schema
        check_assigned(self.state.transaction_state, self.updated_columns)

    @property
    def columns(self) -> Sequence[tuple[str, ...]]:
        """For each clause, the columns that it sets; empty for a delete."""
        return self._assigned

    @property
    def updated_columns(self) -> tuple[str, ...]:
        """Columns that an update clause sets, in the table's order."""
        updated = {
            name
            for clause, names in zip(self._clauses, self._assigned, strict=True)
            if clause.action == "update"
            for name in names
        }
        return tuple(field.name for field in self.schema if field.name in updated)

    @property
    def only_inserts(self) -> bool:
        """Whether the merge changes no existing row."""
        return all(clause.kind == "NOT MATCHED" for clause in self._clauses)

    @property
    def may_match_several(self) -> bool:
        """Whether several source rows may match one target row: matched rows are only deleted."""
        matched = [clause for clause in self._clauses if clause.kind == "MATCHED"]
        match matched:
            case [MergeClause(action="delete", condition=None)]:
                return True
            case _:
                return not matched

    def files(
        self, engine: Engine, predicate: Predicate | None = None
    ) -> CloseableIterator[ScanFile]:
        """Return the files that may have needed rows, and record them for conflict detection.

        Args:
            predicate: true for each target row that may match or change, see
                `TargetRows.predicate`; None: all rows, so that every concurrent change conflicts.
        """
        return self._transaction.read_files(engine, predicate)

    @closeable
    def unrecorded_files(
        self, engine: Engine, predicate: Predicate | None = None
    ) -> Iterator[ScanFile]:
        """Yield the same as `files` without recording; call `record_read` before the commit."""
        scan = ScanBuilder(self._table).with_filter(predicate).with_statistics().build()
        with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
            yield from files

    def record_read(self, engine: Engine, predicate: Predicate | None) -> None:
        """Record the read for conflict detection if `files` didn't.

        Args:
            predicate: see `files`.
        """
        if predicate is None:
            self._transaction.record_read(None)
            return
        with self._transaction.read_files(engine, predicate) as files:
            for _ in files:
                pass

    def commit(
        self,
        engine: Engine,
        changes: RowChanges,
        taken: Mapping[int, int],
        source_rows: int | None = None,
    ) -> MergeMetrics:
        """Commit the merge, unless nothing changes.

        Args:
            changes: combined changes of all workers.
            taken: number of updated or deleted rows by clause index.
            source_rows: number of source rows; None if unknown.

        Raises:
            CommitConflictError: another writer's commit conflicts; the written files were deleted.
            CommitFailedError: the commit failed.
        """
        elapsed = round((time.perf_counter() - self._started) * 1000)
        counts = merge_counts(
            changes,
            [
                (clause, taken.get(number, 0))
                for number, clause in enumerate(self._clauses)
                if clause.kind != "NOT MATCHED"
            ],
            source_rows,
        ) | {
            "execution_time_ms": elapsed,
            "materialize_source_time_ms": 0,
            "scan_time_ms": round(changes.scan_seconds * 1000),
            "rewrite_time_ms": elapsed,
        }
        version = commit_merge(
            engine,
            self._transaction,
            changes,
            counts,
            commits_progress=self._commits_progress,
        )
        return MergeMetrics(version=version, **counts)

    def _data_schema(self, table: TableState, evolved: StructType) -> StructType:
        """Return the columns of new rows, without identity columns that the table generates."""
        inserted = {
            name
            for clause, names in zip(self._clauses, self._assigned, strict=True)
            if clause.action == "insert"
            for name in names
        }
        explicit = [
            f.name for f in evolved if identity_column(f) is not None and f.name in inserted
        ]
        if not explicit:
            return evolved
        fields: list[StructField] = []
        for field in evolved:
            identity = identity_column(field)
            if identity is None:
                fields.append(field)
            elif field.name in explicit:
                if not identity.allow_explicit:
                    raise SchemaError(
                        f"{table.path}: column {field.name!r} is GENERATED ALWAYS AS IDENTITY, so "
                        "values can't be inserted "
                        "(DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED). Remove the column "
                        "from the INSERT.",
                        table=table.path,
                        column=field.name,
                    )
                fields.append(StructField(name=field.name, data_type=field.data_type))
        return StructType(tuple(fields))


def multiple_matches_error(table: str) -> MultipleMatchesError:
    """Return the error for several source rows that match one target row."""
    return MultipleMatchesError(
        f"{table}: several source rows match the same target row "
        "(DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE). Deduplicate the source, or make "
        "the ON condition more specific.",
        table=table,
    )


def _evolved_schema(
    table: TableState,
    source: StructType,
    definition: MergeDefinition,
    assigned: Sequence[Sequence[str] | None],
) -> StructType:
    if not definition.schema_evolution:
        return table.schema
    with_source = [
        (clause, names)
        for clause, names in zip(definition.clauses, assigned, strict=True)
        if clause.kind != "NOT MATCHED BY SOURCE"
    ]
    return evolved_schema(
        table.path,
        table.schema,
        source,
        [(name,) for _, names in with_source for name in names or ()],
        all_columns=any(clause.sets_all_columns for clause, _ in with_source),
        widens=TYPE_WIDENING.read(table.properties),
    )


def _columns(
    table: TableState,
    evolved: StructType,
    source: StructType,
    names: Sequence[str] | None,
    clause: MergeClause,
) -> tuple[str, ...]:
    """Return the columns that a clause sets, in the table's spelling."""
    if clause.action == "delete":
        return ()
    requested: Sequence[str] = names or ()
    if names is None:
        evolves = evolved is not table.schema
        requested = source.names if evolves else table.schema.names
        missing = [name for name in requested if source.get(name) is None]
        if missing:
            raise SchemaError(
                f"{table.path}: WHEN {clause.kind} sets all columns, but the source has no column "
                f"{missing[0]!r}. Its columns are {', '.join(source.names)} "
                "(DELTA_MERGE_UNRESOLVED_EXPRESSION). Set columns by name.",
                table=table.path,
                column=missing[0],
            )
    columns = []
    for name in requested:
        column = evolved.get(name)
        if column is None:
            raise SchemaError(
                f"{table.path}: {name!r} in the WHEN {clause.kind} clause isn't a column. The "
                f"table's columns are {', '.join(table.schema.names)} "
                "(DELTA_MERGE_UNRESOLVED_EXPRESSION).",
                table=table.path,
                column=name,
            )
        if column.name in columns:
            raise SchemaError(
                f"{table.path}: column {column.name!r} is set twice in one clause. Set it once.",
                table=table.path,
                column=column.name,
            )
        columns.append(column.name)
    return tuple(columns)
