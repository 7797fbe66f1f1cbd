"""`INSERT INTO`, `INSERT OVERWRITE` and `INSERT INTO ... REPLACE WHERE`.

`DEFAULT` among the values of `INSERT INTO ... VALUES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayou.errors import SchemaError, StatementError
from bayou.kernel import Snapshot
from bayou.kernel.commands.write import WriteMode
from bayou.protocol.column_metadata import generation_expressions, identity_columns
from bayou.protocol.schema import StructType
from bayou.spark.expressions.assigned_columns import default_literal
from bayou.spark.sql_statements.context import StatementContext
from bayou.spark.sql_statements.token_cursor import TableName, Words, quoted_name
from bayou.spark.write.dataframes import write_rows
from bayou.spark.write.options import WriteOptions, with_session_defaults

__all__ = ["Insert", "parse_insert", "without_defaults"]


def without_defaults(
    query: str, names: tuple[str, ...], schema: StructType, *, table: str
) -> tuple[str, tuple[str, ...]]:
    """A query whose `VALUES` say no `DEFAULT`, and the columns that it still gives.

    A column of which all rows say `DEFAULT` is left out, so that the writer fills it; of others the
    value takes the word's place.

    Args:
        table: its path, for errors.

    Raises:
        UnsupportedFeatureError: a default that the kernel can't evaluate.
        StatementError: some rows, but not all, have `DEFAULT` for a column that only the writer
            can fill.
    """
    words = Words(query)
    if not words.take("VALUES") or not words.has_ahead("DEFAULT"):
        return query, names
    rows = [_row(words)]
    while words.take(","):
        rows.append(_row(words))
    if not words.ended or any(len(row) != len(names) for row in rows):
        return query, names  # Spark, or the count of columns, says what is wrong

    def default(name: str) -> str:
        field = schema.get(name)
        return "(NULL)" if field is None else default_literal(schema, field, table=table)

    made = {n.lower() for n in (*generation_expressions(schema), *identity_columns(schema))}
    kept = []
    for number, name in enumerate(names):
        asked = [_is_default(row[number]) for row in rows]
        if all(asked):
            continue
        if any(asked) and name.lower() in made:
            raise StatementError(
                f"Values of column {name!r} are made by the table: give DEFAULT in all rows, or in "
                "none.",
                statement=query,
            )
        for row in rows:
            if _is_default(row[number]):
                row[number] = default(name)
        kept.append(number)
    if not kept:
        kept = [0]
        for row in rows:
            row[0] = default(names[0])
    shown = (", ".join(row[number] for number in kept) for row in rows)
    return f"VALUES {', '.join(f'({row})' for row in shown)}", tuple(names[n] for n in kept)


def _row(words: Words) -> list[str]:
    if not words.begin_with("("):
        return [words.until_words(",", what="a value")]
    return list(words.several(lambda: words.until_words(",", what="a value")))


def _is_default(value: str) -> bool:
    return value.strip().upper() == "DEFAULT"


_QUERY = "SELECT|VALUES|TABLE|WITH|FROM|MAP|REDUCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`INSERT INTO | OVERWRITE table ... query`.

    Attributes:
        columns: that the query's are for, by position; None: all of the table's.
        by_name: the query's columns are matched by their names.
        partition: of `PARTITION (p = 1, q)`: SQL of the value by column, None for no value.
        replace_where: which rows are replaced.
        evolves: `WITH SCHEMA EVOLUTION`.
    """

    table: TableName
    overwrite: bool
    columns: tuple[str, ...] | None
    by_name: bool
    partition: tuple[tuple[str, str | None], ...]
    replace_where: str | None
    evolves: bool
    query: str

    def run(self, context: StatementContext) -> Any:
        """Rows written, in one commit."""
        target = context.found(self.table)
        if target is None:
            return NotImplemented
        snapshot = target.table.latest_snapshot(target.engine)
        frame = self._rows(context, snapshot)
        given = {**target.options, "path": target.location}
        replaced = self._replaced()
        if replaced is not None:
            given["replaceWhere"] = replaced
        if self.evolves:
            given["mergeSchema"] = "true"
        overwrites = self.overwrite or replaced is not None
        if context.is_classic:
            options = WriteOptions.parse(
                with_session_defaults(context.spark, target.location, given)
            )
            mode = WriteMode.OVERWRITE if overwrites else WriteMode.APPEND
            write_rows(frame, options, mode, None, None, match="name")
        else:
            writer = frame.write.format("delta").mode("overwrite" if overwrites else "append")
            options_given = {k: v for k, v in given.items() if k != "path"}
            writer.options(**options_given).save(target.location)
        return context.nothing()

    def _replaced(self) -> str | None:
        fixed = [(name, value) for name, value in self.partition if value is not None]
        if self.replace_where is not None or not (self.overwrite and fixed):
            return self.replace_where
        return " AND ".join(f"{quoted_name(name)} <=> {value}" for name, value in fixed)

    def _rows(self, context: StatementContext, snapshot: Snapshot) -> Any:
        """The query's rows under the table's names."""
        fixed = {name.lower(): value for name, value in self.partition if value is not None}
        names = self.columns
        if names is None:
            names = tuple(n for n in snapshot.schema.names if n.lower() not in fixed)
        query, names = without_defaults(self.query, names, snapshot.schema, table=snapshot.path)
        frame = context.query(query)
        if self.by_name:
            self._check_names(frame.columns, snapshot)
        else:
            self._check_number(len(frame.columns), names, snapshot)
            frame = frame.toDF(*names)
        for name, value in self.partition:
            if value is not None:
                frame = frame.selectExpr("*", f"{value} AS {quoted_name(name)}")
        return frame

    def _check_number(self, number: int, names: tuple[str, ...], snapshot: Snapshot) -> None:
        if number != len(names):
            more = "few" if number < len(names) else "many"
            raise SchemaError(
                f"INSERT INTO {snapshot.path}: the query gives {number} columns for {len(names)} "
                f"({', '.join(names)}), too {more} (DELTA_INSERT_COLUMN_ARITY_MISMATCH). Name the "
                "columns that it gives: INSERT INTO table (a, b) ..., or use BY NAME.",
                table=snapshot.path,
            )

    def _check_names(self, names: list[str], snapshot: Snapshot) -> None:
        known = {name.lower() for name in snapshot.schema.names}
        for name in names:
            if name.lower() not in known and not self.evolves:
                raise SchemaError(
                    f"INSERT INTO {snapshot.path} BY NAME: the table has no column {name!r}; it "
                    f"has {', '.join(snapshot.schema.names)}. WITH SCHEMA EVOLUTION adds it.",
                    table=snapshot.path,
                    column=name,
                )


def parse_insert(words: Words) -> Insert:
    """Behind `INSERT`."""
    evolves = words.take("WITH", "SCHEMA", "EVOLUTION")
    overwrite = words.take("OVERWRITE")
    if overwrite:
        words.take("INTO")
    else:
        words.expect("INTO")
    words.take("TABLE")
    table = words.table()
    partition: tuple[tuple[str, str | None], ...] = ()
    if words.take("PARTITION"):
        partition = words.several(lambda: _partition(words))
    words.take("IF", "NOT", "EXISTS")
    by_name = words.take("BY", "NAME")
    columns = None
    if not by_name and words.begin_with("(") and not words.begin_with(_QUERY, after=1):
        columns = words.several(lambda: words.name("the name of a column"))
    replace_where = None
    if words.take("REPLACE"):
        if not words.take("WHERE"):
            raise words.error("WHERE (REPLACE USING and REPLACE ON aren't supported)")
        replace_where = words.until_words(*_QUERY.split("|"), what="a condition")
    query = words.rest("a query")
    return Insert(
        table=table,
        overwrite=overwrite,
        columns=columns,
        by_name=by_name,
        partition=partition,
        replace_where=replace_where,
        evolves=evolves,
        query=query,
    )


def _partition(words: Words) -> tuple[str, str | None]:
    name = words.name("the name of a partition column")
    if not words.take("="):
        return name, None
    return name, words.until_words(",", what="the value of a partition column")
