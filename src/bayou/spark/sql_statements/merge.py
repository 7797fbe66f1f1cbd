"""`MERGE INTO`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayou.kernel.commands.merge import ClauseKind, MergeClause
from bayou.spark.commands.merge_request import MergeRequest, RequestedClause
from bayou.spark.delta_table import DeltaMergeBuilder
from bayou.spark.expressions.expressions import RowExpression, condition_of, values_of
from bayou.spark.sql_statements.context import StatementContext
from bayou.spark.sql_statements.delete_update import assignments
from bayou.spark.sql_statements.token_cursor import TableName, Token, Words, tokens

__all__ = ["Merge", "parse_merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertByPosition:
    """`WHEN NOT MATCHED THEN INSERT VALUES (...)`: a value for each column of the table."""

    condition: str | None
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """`MERGE [WITH SCHEMA EVOLUTION] INTO table USING source ON condition WHEN ...`.

    Attributes:
        source: as it stands behind `FROM`, a table or a query in parentheses.
    """

    table: TableName
    alias: str | None
    source: str
    source_alias: str | None
    on: str
    clauses: tuple[MergeClause | InsertByPosition, ...]
    evolves: bool

    def run(self, context: StatementContext) -> Any:
        """Rows updated, deleted and inserted; a frame of their numbers."""
        target = context.found(self.table)
        if target is None:
            return NotImplemented
        text = f"SELECT * FROM {self.source}"  # noqa: S608  # out of the user's own statement
        source = context.query(text)
        names = target.table.latest_snapshot(target.engine).schema.names
        request = MergeRequest(
            on=RowExpression(self.on),
            clauses=tuple(
                _requested(_named(clause, names, context), context) for clause in self.clauses
            ),
            target_alias=self.alias,
            source_alias=self.source_alias,
            schema_evolution=self.evolves,
        )
        return DeltaMergeBuilder(target, source, request).execute()


def parse_merge(words: Words) -> Merge:
    """Behind `MERGE`."""
    evolves = words.take("WITH", "SCHEMA", "EVOLUTION")
    words.expect("INTO")
    table = words.table()
    alias = _alias(words) or _last_of(table)
    words.expect("USING")
    source, source_alias = _source(words)
    words.expect("ON")
    on = words.until(lambda: _at_clause(words), what="a condition")
    clauses = []
    while not words.ended:
        words.expect("WHEN")
        clauses.append(_clause(words, alias))
    if not clauses:
        raise words.error("A WHEN clause")
    return Merge(
        table=table,
        alias=alias,
        source=source,
        source_alias=source_alias,
        on=on,
        clauses=tuple(clauses),
        evolves=evolves,
    )


def _source(words: Words) -> tuple[str, str | None]:
    """The source as text, its alias included, and the name that its columns are called by."""
    text = words.until_words("ON", what="a source")
    return text, _alias_in(tokens(text))


def _alias_in(source: Sequence[Token]) -> str | None:
    depth = 0
    for word, following in itertools.pairwise(source):
        depth += word.says("(") - word.says(")")
        if depth == 0 and word.says("AS") and not following.says("OF"):
            return following.text
    before, last = (source[-2] if len(source) > 1 else None), source[-1]
    if before is not None and not before.says(".") and last.is_name:
        return last.text
    name = list(itertools.takewhile(lambda word: word.is_name or word.says("."), source))
    return _last_of(tuple(word.text for word in name if not word.says("."))) if name else None


def _clause(words: Words, alias: str | None) -> MergeClause | InsertByPosition:
    """Behind `WHEN`."""
    kind: ClauseKind = "NOT MATCHED" if words.take("NOT") else "MATCHED"
    words.expect("MATCHED")
    if words.take("BY", "SOURCE"):
        if kind == "MATCHED":
            raise words.error("NOT MATCHED BY SOURCE, or MATCHED without BY SOURCE,")
        kind = "NOT MATCHED BY SOURCE"
    else:
        words.take("BY", "TARGET")
    condition = None
    if words.take("AND"):
        condition = words.until(lambda: _at_action(words), what="a condition")
    words.expect("THEN")
    if words.take("DELETE"):
        return MergeClause(kind=kind, action="delete", condition=condition)
    if words.take("UPDATE"):
        words.expect("SET")
        if words.take("*"):
            return MergeClause(kind=kind, action="update", condition=condition)
        values = assignments(words, "WHEN")
        own = {_without(alias, name): value for name, value in values.items()}
        return MergeClause(kind=kind, action="update", condition=condition, assignments=own)
    words.expect("INSERT")
    if words.take("*"):
        return MergeClause(kind=kind, action="insert", condition=condition)
    columns = None if words.begin_with("VALUES") else words.columns()
    words.expect("VALUES")
    given = words.several(lambda: words.until_words(",", what="a value"))
    if columns is None:
        return InsertByPosition(condition=condition, values=given)
    if len(columns) != len(given):
        raise words.error(f"As many values as columns ({len(columns)}, not {len(given)})", back=1)
    names = [_without(alias, ".".join(path)) for path in columns]
    inserted = dict(zip(names, given, strict=True))
    return MergeClause(kind=kind, action="insert", condition=condition, assignments=inserted)


def _at_clause(words: Words) -> bool:
    return words.begin_with("WHEN", "MATCHED") or words.begin_with("WHEN", "NOT", "MATCHED")


def _at_action(words: Words) -> bool:
    """A `THEN` of a `CASE` in a condition is followed by something else."""
    return words.begin_with("THEN", "UPDATE|DELETE|INSERT")


def _alias(words: Words) -> str | None:
    if words.take("AS"):
        return words.name("an alias")
    return None if words.begin_with("USING") else words.name("USING, or an alias")


def _last_of(table: TableName) -> str | None:
    """By what a table's columns are called, without an alias; None for a path."""
    return None if len(table) == 2 and table[0].lower() == "delta" else table[-1]


def _without(alias: str | None, name: str) -> str:
    head, dot, rest = name.partition(".")
    return rest if dot and alias is not None and head.lower() == alias.lower() else name


def _named(
    clause: MergeClause | InsertByPosition, names: Sequence[str], context: StatementContext
) -> MergeClause:
    """With the table's names where a clause gives values by position."""
    if isinstance(clause, MergeClause):
        return clause
    if len(clause.values) != len(names):
        raise context.refuse(
            f"The merge has {len(clause.values)} values by position for {len(names)} columns "
            f"({', '.join(names)}). Name the columns before the values."
        )
    return MergeClause(
        kind="NOT MATCHED",
        action="insert",
        condition=clause.condition,
        assignments=dict(zip(names, clause.values, strict=True)),
    )


def _requested(clause: MergeClause, context: StatementContext) -> RequestedClause:
    values = clause.assignments
    return RequestedClause(
        kind=clause.kind,
        action=clause.action,
        condition=condition_of(context.spark, clause.condition),
        values=None if values is None else values_of(context.spark, values, "set"),
    )
