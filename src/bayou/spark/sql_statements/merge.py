"""`MERGE INTO`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bayou.errors import StatementError
from bayou.kernel.commands.merge import ClauseKind, MergeClause
from bayou.protocol.sql import Token, tokenize
from bayou.spark.commands.merge_request import MergeRequest, RequestedClause
from bayou.spark.delta_table import DeltaMergeBuilder
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.sql_statements.context import (
    RowStatement,
    StatementContext,
    is_temporary_view,
)
from bayou.spark.sql_statements.delete_update import parse_assignments, path_sql
from bayou.spark.sql_statements.token_cursor import TableName, TokenCursor, is_path_name
from bayou.spark.target_table import TargetTable


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertByPosition:
    """`WHEN NOT MATCHED THEN INSERT VALUES (...)`: a value for each column of the table."""

    condition: str | None
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(RowStatement):
    """`MERGE [WITH SCHEMA EVOLUTION] INTO table USING source ON condition WHEN ...`.

    Attributes:
        alias: the target's alias. If the target has no alias, this is the table's name without
            its schema; None for a path.
        source: the SQL between `USING` and `ON`: a table name, a path, or a query in parentheses.
            The SQL includes the source's alias.
        source_alias: the source's alias. If the source has no alias, this is the table's name
            without its schema; None for a path or a query.
        common_tables: the clause `WITH name AS (query), ...` before MERGE; "" without the clause.
            The source can read the common table expressions in this clause.
    """

    operation = "MERGE"

    alias: str | None
    source: str
    source_alias: str | None
    on: str
    clauses: tuple[MergeClause | InsertByPosition, ...]
    schema_evolution: bool
    common_tables: str = ""

    @property
    def unaliased_tables(self) -> tuple[TableName, ...]:
        tables = [self.table] if self.alias == _unqualified_name(self.table) else []
        source = TokenCursor(self.source)
        if source.at_name:
            name = source.column()
            tables += [name] if self.source_alias == name[-1] else []
        return tuple(table for table in tables if not is_path_name(table))

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        # The query consists of parts of the user's statement.
        query = f"{self.common_tables}SELECT * FROM {self.source}"  # noqa: S608
        source = context.query(query)
        if is_temporary_view(self.table, target):
            self._check_assignments(context)
        request = MergeRequest(
            on=context.resolve_subqueries(RowExpression(self.on)),
            clauses=tuple(
                _requested_clause(_with_names(clause, target, context), context)
                for clause in self.clauses
            ),
            target_alias=self.alias,
            source_alias=self.source_alias,
            schema_evolution=self.schema_evolution,
        )
        return DeltaMergeBuilder(target, source, request).execute()

    def _check_assignments(self, context: StatementContext) -> None:
        """Raise delta-spark's error if a WHEN clause assigns a nested field.

        Called if the target is a temporary view, because a view's nested fields can't be assigned.
        """
        for clause in self.clauses:
            assignments = clause.assignments if isinstance(clause, MergeClause) else None
            for column in assignments or ():
                if len(TokenCursor(column).column()) > 1:
                    raise context.error(
                        f"{'.'.join(self.table)}: Unexpected assignment key: {column}. A MERGE "
                        "can't assign nested fields through a temporary view "
                        "(DELTA_MERGE_UNEXPECTED_ASSIGNMENT_KEY). Write the table's name "
                        "instead of the view's."
                    )


def parse_merge(cursor: TokenCursor) -> Merge:
    """Parse the tokens after `MERGE`. A WITH clause may precede `MERGE`."""
    common_tables = cursor.text_before_last()
    schema_evolution = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table = cursor.table()
    alias = _parse_alias(cursor) or _unqualified_name(table)
    cursor.expect("USING")
    source, source_alias = _parse_source(cursor)
    cursor.expect("ON")
    on = cursor.until(lambda: _at_when_clause(cursor), expected="a condition")
    clauses = []
    while not cursor.at_end:
        cursor.expect("WHEN")
        clauses.append(_parse_clause(cursor, alias))
    if not clauses:
        raise cursor.error("a WHEN clause")
    _check_conditions(cursor, clauses)
    return Merge(
        table=table,
        alias=alias,
        source=source,
        source_alias=source_alias,
        on=on,
        clauses=tuple(clauses),
        schema_evolution=schema_evolution,
        common_tables=common_tables,
    )


_LAST_CLAUSES: dict[ClauseKind, tuple[str, str]] = {
    "MATCHED": ("MATCHED", "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"),
    "NOT MATCHED": (
        "NOT MATCHED [BY TARGET]",
        "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION",
    ),
    "NOT MATCHED BY SOURCE": (
        "NOT MATCHED BY SOURCE",
        "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
    ),
}
"""Maps each kind of WHEN clause to the pair (name in error messages, Spark's error condition).

The error is raised if a clause without `AND condition` isn't the last clause of its kind.
"""


def _check_conditions(
    cursor: TokenCursor, clauses: Sequence[MergeClause | InsertByPosition]
) -> None:
    """Raise Spark's error if a clause without a condition isn't the last clause of its kind."""
    for kind, (name, condition) in _LAST_CLAUSES.items():
        same_kind = [clause for clause in clauses if _kind(clause) == kind]
        if any(clause.condition is None for clause in same_kind[:-1]):
            raise StatementError(
                f"MERGE: only the last {name} clause can omit the condition ({condition}). Add a "
                f"condition to the other WHEN {kind} clauses.",
                statement=cursor.text,
            )


def _kind(clause: MergeClause | InsertByPosition) -> ClauseKind:
    return clause.kind if isinstance(clause, MergeClause) else "NOT MATCHED"


def _parse_source(cursor: TokenCursor) -> tuple[str, str | None]:
    """Parse the source of a MERGE.

    Returns:
        The source's SQL including its alias, and the name that qualifies the source's columns. This
        name is the alias. If the source has no alias, it is the table's name without its schema, or
        None for a path or a query.
    """
    source = cursor.until_keywords("ON", expected="a source")
    return source, _source_alias(list(tokenize(source)))


def _source_alias(source: Sequence[Token]) -> str | None:
    depth = 0
    for token, following in itertools.pairwise(source):
        depth += token.is_keyword("(") - token.is_keyword(")")
        if depth == 0 and token.is_keyword("AS") and not following.is_keyword("OF"):
            return following.text
    before, last = (source[-2] if len(source) > 1 else None), source[-1]
    if before is not None and not before.is_keyword(".") and last.is_name:
        return last.text
    table = TokenCursor("", source)
    return _unqualified_name(table.column()) if table.at_name else None


def _parse_clause(cursor: TokenCursor, alias: str | None) -> MergeClause | InsertByPosition:
    """Parse the tokens after `WHEN`."""
    kind: ClauseKind = "NOT MATCHED" if cursor.take("NOT") else "MATCHED"
    cursor.expect("MATCHED")
    if cursor.take("BY", "SOURCE"):
        if kind == "MATCHED":
            raise cursor.error("AND or THEN (BY SOURCE can only follow NOT MATCHED)")
        kind = "NOT MATCHED BY SOURCE"
    else:
        cursor.take("BY", "TARGET")
    condition = None
    if cursor.take("AND"):
        condition = cursor.until(lambda: _at_action(cursor), expected="a condition")
    cursor.expect("THEN")
    if cursor.take("DELETE"):
        return MergeClause(kind=kind, action="delete", condition=condition)
    if cursor.take("UPDATE"):
        cursor.expect("SET")
        if cursor.take("*"):
            return MergeClause(kind=kind, action="update", condition=condition)
        values = parse_assignments(cursor, "WHEN")
        assignments = _without_qualifiers(cursor, alias, values.items())
        return MergeClause(kind=kind, action="update", condition=condition, assignments=assignments)
    cursor.expect("INSERT")
    if cursor.take("*"):
        return MergeClause(kind=kind, action="insert", condition=condition)
    columns = None if cursor.next_are("VALUES") else cursor.columns()
    cursor.expect("VALUES")
    row = cursor.parenthesized_list(lambda: cursor.until_keywords(",", expected="a value"))
    if columns is None:
        return InsertByPosition(condition=condition, values=row)
    if len(columns) != len(row):
        raise cursor.error(
            f"as many values as columns (INSERT has {len(columns)} columns and {len(row)} values)",
            back=1,
        )
    names = [path_sql(path) for path in columns]
    inserted = _without_qualifiers(cursor, alias, zip(names, row, strict=True), inserts=True)
    return MergeClause(kind=kind, action="insert", condition=condition, assignments=inserted)


def _at_when_clause(cursor: TokenCursor) -> bool:
    return cursor.next_are("WHEN", "MATCHED") or cursor.next_are("WHEN", "NOT", "MATCHED")


def _at_action(cursor: TokenCursor) -> bool:
    """Whether `THEN UPDATE`, `THEN DELETE` or `THEN INSERT` is next."""
    return cursor.next_are("THEN", "UPDATE|DELETE|INSERT")


def _parse_alias(cursor: TokenCursor) -> str | None:
    if cursor.take("AS"):
        return cursor.name("an alias")
    return None if cursor.next_are("USING") else cursor.name("USING, or an alias")


def _unqualified_name(table: TableName) -> str | None:
    """Return `t` for the table name `catalog.schema.t`; None for a path."""
    return None if is_path_name(table) else table[-1]


def _without_qualifiers(
    cursor: TokenCursor,
    alias: str | None,
    values: Iterable[tuple[str, str]],
    *,
    inserts: bool = False,
) -> dict[str, str]:
    """Remove the qualifier `alias.` from the column names of assignments.

    Args:
        alias: the alias of the MERGE's target.
        values: pairs of column name and value (SQL).
        inserts: whether the assignments belong to an INSERT clause. If a column is assigned twice,
            the error of an INSERT clause differs from the error of an UPDATE clause.

    Returns:
        A dictionary from column name to value (SQL).

    Raises:
        StatementError: a column is assigned twice.
    """
    assignments: dict[str, str] = {}
    for qualified, value in values:
        name = _without_qualifier(alias, qualified)
        if name in assignments:
            if inserts:
                raise cursor.duplicate_insert_column_error(name)
            raise cursor.duplicate_column_error(name)
        assignments[name] = value
    return assignments


def _without_qualifier(alias: str | None, name: str) -> str:
    qualifier, dot, column = name.partition(".")
    return column if dot and alias is not None and qualifier.lower() == alias.lower() else name


def _with_names(
    clause: MergeClause | InsertByPosition, target: TargetTable, context: StatementContext
) -> MergeClause:
    """Add the target's column names to `INSERT VALUES`; return other clauses unchanged."""
    if isinstance(clause, MergeClause):
        return clause
    view = target.view
    names = target.snapshot().schema.names if view is None else view.columns
    if len(clause.values) != len(names):
        raise context.error(
            f"MERGE: INSERT VALUES has {len(clause.values)} values, but the table has "
            f"{len(names)} columns: {', '.join(names)}. List the columns before VALUES."
        )
    return MergeClause(
        kind="NOT MATCHED",
        action="insert",
        condition=clause.condition,
        assignments=dict(zip((path_sql([name]) for name in names), clause.values, strict=True)),
    )


def _requested_clause(clause: MergeClause, context: StatementContext) -> RequestedClause:
    values = clause.assignments
    return RequestedClause(
        kind=clause.kind,
        action=clause.action,
        condition=context.condition(clause.condition),
        values=None if values is None else context.values(values),
    )
