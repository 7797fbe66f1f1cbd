"""`INSERT INTO`, `INSERT OVERWRITE` and `INSERT INTO ... REPLACE WHERE | USING | ON`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bayou.errors import SchemaError, StatementError
from bayou.kernel import Snapshot
from bayou.kernel.commands.write import WriteMode
from bayou.protocol.column_metadata import (
    COLLATIONS_KEY,
    generation_expressions,
    identity_columns,
)
from bayou.protocol.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    DecimalType,
    StructType,
)
from bayou.protocol.sql import has_char, quote_identifier, tokenize
from bayou.spark.commands.replace_matching import (
    Replacement,
    check_aligned,
    check_options,
    replace_matching,
)
from bayou.spark.expressions.assigned_columns import default_literal
from bayou.spark.expressions.session_grammar import session_literal
from bayou.spark.sql_statements.column_definitions import parse_properties
from bayou.spark.sql_statements.context import StatementContext, TableStatement
from bayou.spark.sql_statements.token_cursor import TokenCursor
from bayou.spark.target_table import TargetTable
from bayou.spark.write.dataframes import NestedMatch, write_rows
from bayou.spark.write.options import (
    WriteOptions,
    merges_schema,
    overwrites_dynamically,
    with_session_defaults,
)


def replace_defaults(
    query: str, names: tuple[str, ...], schema: StructType, *, table: str
) -> tuple[str, tuple[str, ...]]:
    """Replace the keyword `DEFAULT` in a `VALUES` query.

    If a column is `DEFAULT` in all rows, the column is removed from the query. The writer then adds
    the default value. If a column is `DEFAULT` in some rows, the keyword is replaced by the SQL of
    the default value. If all columns are `DEFAULT` in all rows, the first column that isn't a
    generated or identity column isn't removed.

    A query that doesn't start with `VALUES` is returned unchanged.

    Args:
        names: the names of the table's columns to which the query's columns are written.
        schema: the table's schema.
        table: the table's path, for error messages.

    Returns:
        The new query, and the names of the columns that it still has.
    """
    cursor = TokenCursor(query)
    if not cursor.take("VALUES") or not cursor.contains("DEFAULT"):
        return query, names
    rows = cursor.comma_separated(lambda: _parse_row(cursor))
    if not cursor.at_end or any(len(row) != len(names) for row in rows):
        return query, names  # Spark or the check of the column count reports the error

    def default(name: str) -> str:
        field = schema.get(name)
        return "(NULL)" if field is None else default_literal(schema, field, table=table)

    generated = {n.lower() for n in (*generation_expressions(schema), *identity_columns(schema))}
    remaining = []
    for number, name in enumerate(names):
        is_default = [_is_default(row[number]) for row in rows]
        if all(is_default):
            continue
        if any(is_default) and name.lower() in generated:
            raise StatementError(
                f"Column {name!r}: it is a generated or identity column, and only some rows of "
                "VALUES have DEFAULT. Use DEFAULT in all rows, or in none.",
                statement=query,
            )
        for row in rows:
            if _is_default(row[number]):
                row[number] = default(name)
        remaining.append(number)
    if not remaining:
        kept = next((n for n, name in enumerate(names) if name.lower() not in generated), None)
        if kept is None:
            raise StatementError(
                f"Table {table}: all columns of VALUES are generated or identity columns, and all "
                "their values are DEFAULT. Name another column in the INSERT statement too.",
                statement=query,
            )
        remaining = [kept]
        for row in rows:
            row[kept] = default(names[kept])
    values = (", ".join(row[number] for number in remaining) for row in rows)
    return f"VALUES {', '.join(f'({row})' for row in values)}", tuple(names[n] for n in remaining)


def _parse_row(cursor: TokenCursor) -> list[str]:
    if not cursor.next_are("("):
        return [cursor.until_keywords(",", expected="a value")]
    return list(cursor.parenthesized_list(lambda: cursor.until_keywords(",", expected="a value")))


def _is_default(value: str) -> bool:
    return value.strip().upper() == "DEFAULT"


_QUERY = "SELECT|VALUES|TABLE|WITH|FROM|MAP|REDUCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(TableStatement):
    """`INSERT INTO | OVERWRITE table ... query`.

    Attributes:
        columns: the column list after the table, matched with the query's columns by position;
            None if the statement has no column list.
        by_name: whether the query's columns are matched by name.
        partition: the pairs (column, value) of `PARTITION (p = 1, q)`. The value is SQL; None if
            the statement has no value for the column.
        replace_where: the condition of `REPLACE WHERE`; None without the clause.
        replacement: the clause `REPLACE USING` or `REPLACE ON`; None without it.
        options: the write options in `WITH ('key' = 'value')`.
    """

    overwrite: bool
    columns: tuple[str, ...] | None
    by_name: bool
    partition: tuple[tuple[str, str | None], ...]
    replace_where: str | None
    replacement: Replacement | None
    schema_evolution: bool
    query: str
    options: Mapping[str, str] = field(default_factory=dict)

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        snapshot = target.table.latest_snapshot(target.engine)
        if self.replacement is not None:
            return self._replace_matching(context, target, snapshot, self.replacement)
        partition = self._fixed_values(context, snapshot)
        frame = self._rows(context, snapshot, partition)
        settings = {**target.options, **self.options, "path": target.location}
        replaced = self._replaced_rows(context, snapshot, partition)
        if replaced is not None:
            settings["replaceWhere"] = replaced
        if self.schema_evolution:
            settings["mergeSchema"] = "true"
        overwrites = self.overwrite or replaced is not None
        options = WriteOptions.parse(
            with_session_defaults(context.spark, target.location, settings)
        )
        if self.replace_where is None and _compare_bytes(snapshot, partition):
            options = replace(options, compares_bytes=True)
        mode = WriteMode.OVERWRITE if overwrites else WriteMode.APPEND
        nested: NestedMatch = "position" if self.columns is not None else "spark"
        write_rows(
            frame,
            options,
            mode,
            None,
            None,
            match="name",
            nested=nested,
            requires_partition_columns=overwrites and options.dynamic_partitions,
        )
        return context.empty_result()

    def _replace_matching(
        self,
        context: StatementContext,
        target: TargetTable,
        snapshot: Snapshot,
        replacement: Replacement,
    ) -> Any:
        check_options(self.options, "REPLACE USING" if replacement.on is None else "REPLACE ON")
        rows = context.query(self.query)
        if self.by_name:
            self._check_names(rows.columns, snapshot, evolves=self.schema_evolution)
            columns = {name: name for name in rows.columns}
        else:
            names = self.columns or tuple(snapshot.schema.names)
            self._check_column_count(len(rows.columns), names, snapshot)
            check_aligned(snapshot.path, replacement.using, names, rows.columns)
            if len({name.lower() for name in rows.columns}) < len(names):
                rows = rows.toDF(*names)
            columns = dict(zip(names, rows.columns, strict=True))
        replace_matching(target, rows, columns, replacement)
        return context.empty_result()

    def _fixed_values(self, context: StatementContext, snapshot: Snapshot) -> dict[str, str]:
        """Return the values in the `PARTITION` clause as SQL, by column name in lower case.

        Columns without a value are omitted. If the column's type is string, a number is evaluated
        before it is converted to a string, as in Spark: `p = 01` means `p = '1'`, not `p = '01'`.
        """
        known = {name.lower() for name in snapshot.partition_columns}
        fixed: dict[str, str] = {}
        seen: set[str] = set()
        for name, constant in self.partition:
            if name.lower() not in known or name.lower() in seen:
                raise context.error(
                    f"Table {snapshot.path}: {name!r} in PARTITION isn't a partition column, or is "
                    f"named twice. The partition columns are "
                    f"{', '.join(snapshot.partition_columns) or 'none'}."
                )
            seen.add(name.lower())
            if constant is None:
                continue
            field = snapshot.schema.get(name)
            if field is not None and field.data_type == STRING:
                (string,) = context.query(f"SELECT CAST({constant} AS STRING)").first()
                fixed[name.lower()] = (
                    "NULL" if string is None else session_literal(context.spark, string)
                )
            else:
                fixed[name.lower()] = constant
        return fixed

    def _replaced_rows(
        self, context: StatementContext, snapshot: Snapshot, partition: Mapping[str, str]
    ) -> str | None:
        """Return the condition (SQL) that selects the rows to replace.

        Returns None for an append, a full overwrite, or a dynamic partition overwrite.

        Args:
            partition: the values in the `PARTITION` clause as SQL, by column name; see
                `_fixed_values`.
        """
        if self.replace_where is not None or not (self.overwrite and partition):
            return self.replace_where
        if overwrites_dynamically(context.spark, self.options):
            return None  # the write replaces the partitions that have rows of the query
        return " AND ".join(
            _equality(context, snapshot, name, value) for name, value in partition.items()
        )

    def _rows(
        self, context: StatementContext, snapshot: Snapshot, partition: Mapping[str, str]
    ) -> Any:
        """Run the query, and give the DataFrame's columns the names of the table's columns.

        The columns in `partition` are added to the DataFrame.

        Args:
            partition: the values in the `PARTITION` clause as SQL, by column name.
        """
        names = self.columns
        if names is None:
            names = tuple(n for n in snapshot.schema.names if n.lower() not in partition)
        query, names = replace_defaults(self.query, names, snapshot.schema, table=snapshot.path)
        frame = context.query(query)
        evolves = self.schema_evolution or merges_schema(context.spark)
        if self.by_name:
            self._check_names(frame.columns, snapshot, evolves=evolves)
        else:
            if evolves and self.columns is None:
                names = (*names, *frame.columns[len(names) :])
            self._check_column_count(len(frame.columns), names, snapshot)
            frame = frame.toDF(*names)
        for name, value in partition.items():
            frame = frame.selectExpr("*", f"{value} AS {quote_identifier(name)}")
        return frame

    def _check_column_count(self, number: int, names: tuple[str, ...], snapshot: Snapshot) -> None:
        if number != len(names):
            extra = number > len(names) and self.columns is None
            condition = "DELTA_METADATA_MISMATCH" if extra else "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
            raise SchemaError(
                f"Table {snapshot.path}: the query of INSERT INTO has {number} columns, but "
                f"{len(names)} are expected: {', '.join(names)} "
                f"({condition}). List the columns that the query fills "
                "(INSERT INTO table (a, b) ...), or use BY NAME.",
                table=snapshot.path,
            )

    def _check_names(self, names: list[str], snapshot: Snapshot, *, evolves: bool) -> None:
        known = {name.lower() for name in snapshot.schema.names}
        for name in names:
            if name.lower() not in known and not evolves:
                raise SchemaError(
                    f"Table {snapshot.path}: it has no column {name!r} for INSERT INTO ... BY "
                    f"NAME; its columns are {', '.join(snapshot.schema.names)} "
                    "(DELTA_METADATA_MISMATCH). Rename the query's column, or add it to the table "
                    "with INSERT WITH SCHEMA EVOLUTION.",
                    table=snapshot.path,
                    column=name,
                )


def _equality(context: StatementContext, snapshot: Snapshot, name: str, value: str) -> str:
    """Return an SQL condition that is true if a partition column equals a constant.

    Values of a CHAR column are compared without trailing spaces. Spark pads CHAR values with spaces
    when it reads them, and some writers store the spaces.

    Args:
        value: the constant, as SQL. The function casts the constant to the column's type in the
            same way as `INSERT` does.
    """
    field, column = snapshot.schema.get(name), quote_identifier(name)
    assert field is not None  # partition columns are columns of the table
    if has_char(field):
        (string,) = context.query(f"SELECT rtrim({value})").first()
        literal = "NULL" if string is None else session_literal(context.spark, string)
        return f"rtrim({column}) <=> {literal}"
    if field.data_type == FLOAT:
        (number,) = context.query(f"SELECT CAST({value} AS FLOAT)").first()
        return f"{column} <=> {_float_literal(number)}"
    if field.data_type in _CAST_TYPES:
        cast = f"TRY_CAST(CAST({value} AS STRING) AS {field.data_type})"
        string, is_null = context.query(f"SELECT CAST({cast} AS STRING), {value} IS NULL").first()
        if string is None and not is_null:
            raise context.error(
                f"Table {snapshot.path}: {value} in PARTITION isn't a value of the column "
                f"{field.name!r}, whose type is {field.data_type} (CAST_INVALID_INPUT). Use a "
                "value of this type."
            )
        if string is None:
            return f"{column} <=> NULL"
        return f"{column} <=> " + (f"DATE'{string}'" if field.data_type == DATE else string)
    if isinstance(field.data_type, DecimalType):
        (decimal,) = context.query(f"SELECT CAST({value} AS {field.data_type})").first()
        return f"{column} <=> {'NULL' if decimal is None else format(decimal, 'f')}"
    return f"{column} <=> {value}"


_CAST_TYPES = (BYTE, SHORT, INTEGER, LONG, BOOLEAN, DATE)
"""Column types for which `_equality` casts a constant to STRING and then to the column's type."""


def _float_literal(number: float | None) -> str:
    if number is None:
        return "NULL"
    return f"{number!r}F" if math.isfinite(number) else f"CAST('{number}' AS FLOAT)"


def _compare_bytes(snapshot: Snapshot, partition: Mapping[str, str]) -> bool:
    """Whether the condition that selects the rows to replace may compare CHAR values by bytes.

    True if a CHAR column is in the `PARTITION` clause, and no column in the clause has a collation.

    Args:
        partition: the values in the `PARTITION` clause as SQL, by column name.
    """
    fields = [f for name in partition if (f := snapshot.schema.get(name)) is not None]
    return any(map(has_char, fields)) and not any(COLLATIONS_KEY in f.metadata for f in fields)


def parse_insert(cursor: TokenCursor) -> Insert:
    """Parse the tokens after `INSERT`."""
    schema_evolution = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    overwrite = cursor.take("OVERWRITE")
    if overwrite:
        cursor.take("INTO")
    else:
        cursor.expect("INTO")
    if not cursor.next_are("TABLE", "VALUES|SELECT|("):  # the name of the table isn't "table"
        cursor.take("TABLE")
    table = cursor.table()
    options: Mapping[str, str] = {}
    if cursor.next_are("WITH", "("):
        cursor.expect("WITH")
        options = parse_properties(cursor)
    if any(k.lower() == "mergeschema" and v.lower() == "true" for k, v in options.items()):
        schema_evolution = True
    partition: tuple[tuple[str, str | None], ...] = ()
    if cursor.take("PARTITION"):
        partition = cursor.parenthesized_list(lambda: _parse_partition(cursor))
        if cursor.next_are("IF", "NOT", "EXISTS"):
            raise cursor.error("a query (IF NOT EXISTS isn't supported for partitions)")
    alias = _parse_alias(cursor)
    by_name = cursor.take("BY", "NAME")
    columns = None
    if not by_name and cursor.next_are("(") and not cursor.next_are(_QUERY, after=1):
        columns = cursor.parenthesized_list(lambda: cursor.name("the name of a column"))
    replace_where, replacement = None, None
    if cursor.take("REPLACE"):
        if cursor.next_are("USING|ON") and partition:
            raise cursor.error("WHERE (PARTITION can't be combined with USING and ON)")
        if cursor.take("USING"):
            using = cursor.parenthesized_list(lambda: cursor.name("the name of a column"))
            replacement = Replacement(using=using, schema_evolution=schema_evolution)
        elif cursor.take("ON"):
            condition = cursor.until_keywords(*_QUERY.split("|"), expected="a condition")
            replacement = Replacement(
                on=condition, target_alias=alias, schema_evolution=schema_evolution
            )
        else:
            cursor.expect("WHERE")
            replace_where = cursor.until_keywords(*_QUERY.split("|"), expected="a condition")
    query = cursor.until_end("a query")
    return Insert(
        table=table,
        overwrite=overwrite,
        columns=columns,
        by_name=by_name,
        partition=partition,
        replace_where=replace_where,
        replacement=replacement,
        schema_evolution=schema_evolution,
        query=query,
        options=options,
    )


def _parse_alias(cursor: TokenCursor) -> str | None:
    """Parse the alias of the table; None if the table has no alias.

    A name without the keyword AS is an alias only before REPLACE or BY NAME REPLACE.
    """
    if cursor.take("AS"):
        return cursor.name("an alias")
    if cursor.at_name and any(
        cursor.next_are(*clause, after=1) for clause in (("REPLACE",), ("BY", "NAME", "REPLACE"))
    ):
        return cursor.name()
    return None


def _parse_partition(cursor: TokenCursor) -> tuple[str, str | None]:
    name = cursor.name("the name of a partition column")
    if not cursor.take("="):
        return name, None
    value = cursor.until_keywords(",", expected="the value of a partition column")
    if not _is_constant(value):
        raise cursor.error(f"a constant as the value of {name}", back=1)
    return name, value


def _is_constant(sql: str) -> bool:
    """Whether the SQL is a literal: a string, number, NULL, boolean, date or timestamp."""
    tokens = list(tokenize(sql))
    if tokens[0].is_keyword("(") and tokens[-1].is_keyword(")"):  # a negative parameter
        tokens = tokens[1:-1] or tokens
    if len(tokens) == 1:
        constant = tokens[0].is_keyword("NULL", "TRUE", "FALSE")
        return constant or tokens[0].is_number or tokens[0].kind in ("string", "binary")
    if tokens[0].is_keyword("-"):
        return len(tokens) == 2 and tokens[1].is_number
    typed = tokens[0].is_keyword("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
    return all(token.is_string for token in tokens[1:]) and (typed or tokens[0].is_string)
