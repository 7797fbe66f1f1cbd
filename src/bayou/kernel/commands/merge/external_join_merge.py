"""A merge whose rows another engine has joined: planned and committed here.

That engine decides which clause takes which row, and computes the new values; `FoundRowsWork` puts
them into files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from bayou.errors import MultipleMatchesError, SchemaError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.commands.merge.assignments import grown_schema
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
from bayou.protocol.column_rules import identity_of
from bayou.protocol.properties import TYPE_WIDENING
from bayou.protocol.schema import StructField, StructType

__all__ = ["JoinedMerge", "several_matches"]


class JoinedMerge:
    """A merge under way, in the process that commits.

    Args:
        table: the version that is read.
        source: the source's columns.
        definition: its texts are for the history alone.
        assigned: by clause that sets columns, the columns of the target, or new ones of the source,
            that it sets; None for all of the source's.
        started: `time.perf_counter()` when it began, for the metrics.
        application: whose progress the commit records, also where nothing changes.
        transaction_ids, table_properties: see `merge`.

    Raises:
        ArgumentError: clauses that can't stand together.
        SchemaError: a column that can't be set, or isn't there.
        ConstraintViolationError, UnsupportedFeatureError: the table can't be changed.

    Attributes:
        schema: the table's, as it will be.
        state: how rows change.
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
        grown = _grown(table, source, definition, assigned)
        self._assigned = [
            _columns(table, grown, source, names, clause)
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
        brought = self._brought(table, grown)
        if brought != table.schema:
            builder = builder.with_schema(brought)
        for name, version in progress:
            builder = builder.with_transaction_id(name, version)
        self._transaction = builder.with_schema_evolution(definition.schema_evolution).build(engine)
        self.state = RowChangeState.of(engine, self._transaction)
        self.schema = self.state.write.schema
        check_assigned(self.state.write, self.updated_columns)

    @property
    def columns(self) -> Sequence[tuple[str, ...]]:
        """By clause, the columns that it sets; none for a delete."""
        return self._assigned

    @property
    def updated_columns(self) -> tuple[str, ...]:
        """Columns that any clause gives rows of the table new values of, in the table's order."""
        named = {
            name
            for clause, names in zip(self._clauses, self._assigned, strict=True)
            if clause.action == "update"
            for name in names
        }
        return tuple(field.name for field in self.schema if field.name in named)

    @property
    def only_inserts(self) -> bool:
        """No row of the table changes, whatever matches."""
        return all(clause.kind == "NOT MATCHED" for clause in self._clauses)

    @property
    def may_match_several(self) -> bool:
        """Several source rows may match one target row: all it does is to go away."""
        matched = [clause for clause in self._clauses if clause.kind == "MATCHED"]
        match matched:
            case [MergeClause(action="delete", condition=None)]:
                return True
            case _:
                return not matched

    def files(
        self, engine: Engine, predicate: Predicate | None = None
    ) -> CloseableIterator[ScanFile]:
        """Files that may have rows that matter; they, and the predicate, count at the commit.

        Args:
            predicate: true of each target row that may match or change, see `rows_that_matter`;
                None: all, so that whatever wins against this merge conflicts.
        """
        return self._transaction.read_files(engine, predicate)

    @closeable
    def unrecorded_files(
        self, engine: Engine, predicate: Predicate | None = None
    ) -> Iterator[ScanFile]:
        """As `files`; what counts at the commit `record_read` tells, once it is known."""
        scan = ScanBuilder(self._table).with_filter(predicate).with_statistics().build()
        with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
            yield from files

    def record_read(self, engine: Engine, predicate: Predicate | None) -> None:
        """Note what the merge rests on, where `files` hasn't.

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
        """Commit; nothing is committed where nothing changes.

        Args:
            changes: of all workers.
            taken: rows that were updated and deleted, by the clause's place among all.
            source_rows: None where nobody has counted them.

        Raises:
            CommitConflictError: another writer's commit won; what was written has been deleted.
            CommitFailedError: as the name says.
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

    def _brought(self, table: TableState, grown: StructType) -> StructType:
        """The columns of new rows: without identity columns whose values are made."""
        inserted = {
            name
            for clause, names in zip(self._clauses, self._assigned, strict=True)
            if clause.action == "insert"
            for name in names
        }
        explicit = [f.name for f in grown if identity_of(f) is not None and f.name in inserted]
        if not explicit:
            return grown
        fields: list[StructField] = []
        for field in grown:
            identity = identity_of(field)
            if identity is None:
                fields.append(field)
            elif field.name in explicit:
                if not identity.allow_explicit:
                    raise SchemaError(
                        f"Column {field.name!r} of {table.path} is GENERATED ALWAYS AS IDENTITY: "
                        "its values are made, none can be inserted "
                        "(DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED).",
                        table=table.path,
                        column=field.name,
                    )
                fields.append(StructField(name=field.name, data_type=field.data_type))
        return StructType(tuple(fields))


def several_matches(table: str) -> MultipleMatchesError:
    """Several source rows match one row of a table."""
    return MultipleMatchesError(
        f"Several rows of the source match one row of {table}, so that it isn't clear what that "
        "row is to become (DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE). Keep one row "
        "for each key in the source.",
        table=table,
    )


def _grown(
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
    return grown_schema(
        table.path,
        table.schema,
        source,
        [(name,) for _, names in with_source for name in names or ()],
        all_columns=any(clause.takes_all_columns for clause, _ in with_source),
        widens=TYPE_WIDENING.read(table.properties),
    )


def _columns(
    table: TableState,
    grown: StructType,
    source: StructType,
    names: Sequence[str] | None,
    clause: MergeClause,
) -> tuple[str, ...]:
    """What a clause sets, as the table spells it."""
    if clause.action == "delete":
        return ()
    wanted: Sequence[str] = names or ()
    if names is None:
        evolves = grown is not table.schema
        wanted = source.names if evolves else table.schema.names
        missing = [name for name in wanted if source.get(name) is None]
        if missing:
            raise SchemaError(
                f"WHEN {clause.kind} takes all columns of {table.path}, and the source has no "
                f"column {missing[0]!r}; it has {', '.join(source.names)} "
                "(DELTA_MERGE_UNRESOLVED_EXPRESSION).",
                table=table.path,
                column=missing[0],
            )
    found = []
    for name in wanted:
        column = grown.get(name)
        if column is None:
            raise SchemaError(
                f"{name!r} in the WHEN {clause.kind} clause isn't a column of {table.path}; it has "
                f"{', '.join(table.schema.names)} (DELTA_MERGE_UNRESOLVED_EXPRESSION).",
                table=table.path,
                column=name,
            )
        if column.name in found:
            raise SchemaError(
                f"Column {column.name!r} of {table.path} is set twice in one clause.",
                table=table.path,
                column=column.name,
            )
        found.append(column.name)
    return tuple(found)
