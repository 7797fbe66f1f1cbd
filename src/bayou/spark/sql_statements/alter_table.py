"""`ALTER TABLE`, `COMMENT ON TABLE` and `COMMENT ON COLUMN`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bayou.api.commands.alter import TableAlterer
from bayou.errors import ArgumentError, SchemaError
from bayou.kernel.commands.alter.change_column import change_column
from bayou.kernel.commands.alter.columns import NewColumn, add_columns
from bayou.kernel.commands.alter.constraints import add_constraint
from bayou.kernel.commands.alter.replace_columns import replace_columns
from bayou.kernel.commands.alter.schema_paths import resolve_path
from bayou.kernel.table_features.column_dependencies import quote_path
from bayou.kernel.table_features.column_mapping import without_mapping
from bayou.protocol.column_metadata import CURRENT_DEFAULT_KEY, GENERATION_EXPRESSION_KEY
from bayou.protocol.schema import StructField, StructType
from bayou.spark.catalog_tables import refresh_columns
from bayou.spark.hooks.hooks import plain_sql
from bayou.spark.session.settings import conf_flag
from bayou.spark.sql_statements.column_definitions import (
    complete_field,
    parse_column_definition,
    parse_column_type,
    parse_position,
    parse_properties,
    parse_property_keys,
)
from bayou.spark.sql_statements.context import Statement, StatementContext, TableStatement
from bayou.spark.sql_statements.token_cursor import TokenCursor
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable

_Column = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable(TableStatement):
    """`ALTER TABLE table ...`: one or more changes. Each change is committed separately."""

    changes: tuple[Callable[[TargetTable], object], ...]

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        for change in self.changes:
            change(target)
        if target.name is not None:
            refresh_columns(context.spark, target.name, target.path)
        return context.empty_result()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLocation(TableStatement):
    """`ALTER TABLE table SET LOCATION 'path'`: changes the location of a catalog table."""

    location: str

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        name = ".".join(self.table)
        if target.name is None:
            raise ArgumentError(
                f"{name}: SET LOCATION changes a catalog table, but this is a path "
                "(DELTA_CANNOT_SET_LOCATION_ON_PATH_IDENTIFIER). Use the table's name in the "
                "catalog.",
                argument="LOCATION",
            )
        new = TargetTable(spark=context.spark, location=self.location)
        old_schema = target.table.latest_snapshot(target.engine).schema
        new_schema = new.table.latest_snapshot(new.engine).schema
        if _names_and_types(old_schema) != _names_and_types(new_schema):
            raise SchemaError(
                f"{name}: the table at {self.location} has the columns "
                f"({', '.join(new_schema.names)}), but the current table has "
                f"({', '.join(old_schema.names)}) (DELTA_SET_LOCATION_SCHEMA_MISMATCH). Choose a "
                "table with the same columns, or drop the catalog table and create it again.",
                table=new.path,
            )
        plain_sql(context.spark, context.text)
        refresh_columns(context.spark, target.name, new.path)
        return context.empty_result()


def _names_and_types(schema: StructType) -> list[tuple[str, str]]:
    return [(f.name.lower(), str(f.data_type)) for f in without_mapping(schema)]


def parse_alter_table(cursor: TokenCursor) -> Statement | None:
    """Parse the tokens after `ALTER`.

    Returns None for a statement that Spark must run, such as `ALTER VIEW` or `ALTER TABLE ...
    RENAME TO`.
    """
    if not cursor.take("TABLE"):
        return None
    table = cursor.table()
    if cursor.next_are("RENAME", "TO"):
        return None
    if cursor.take("SET", "LOCATION"):
        location = cursor.string("a path")
        cursor.expect_end()
        return SetLocation(table=table, location=location)
    changes = _parse_changes(cursor)
    cursor.expect_end()
    return AlterTable(table=table, changes=tuple(changes))


def parse_comment(cursor: TokenCursor) -> AlterTable | None:
    """Parse the tokens after `COMMENT`; None if the comment isn't for a table or a column."""
    if not cursor.take("ON"):
        return None
    if cursor.take("TABLE"):
        table = cursor.table()
        comment = _parse_comment_text(cursor) or ""
        change = _alteration(lambda a: a.set_table_properties({"comment": comment}))
        return AlterTable(table=table, changes=(change,))
    if cursor.take("COLUMN"):
        *parts, column = cursor.column("a column with its table, such as t.id")
        text = _parse_comment_text(cursor)
        change = _alteration(lambda a: a.set_comment((column,), text))
        return AlterTable(table=tuple(parts), changes=(change,))
    return None


def _parse_comment_text(cursor: TokenCursor) -> str | None:
    """Parse `IS 'text'` or `IS NULL` at the end of a statement."""
    cursor.expect("IS")
    text = None if cursor.take("NULL") else cursor.string("a comment")
    cursor.expect_end()
    return text


def _parse_changes(cursor: TokenCursor) -> list[Callable[[TargetTable], object]]:
    if cursor.take("ADD"):
        return [_parse_add(cursor)]
    if cursor.take("DROP"):
        return [_parse_drop(cursor)]
    if cursor.take("RENAME", "COLUMN"):
        return [_parse_rename(cursor)]
    if cursor.take("ALTER|CHANGE"):
        cursor.take("COLUMN")
        return _parse_change_column(cursor)
    if cursor.take("SET", "TBLPROPERTIES"):
        assigned = parse_properties(cursor)
        return [_alteration(lambda a: a.set_table_properties(assigned))]
    if cursor.take("UNSET", "TBLPROPERTIES"):
        cursor.take("IF", "EXISTS")
        keys = parse_property_keys(cursor)
        # delta-spark ignores missing properties, with and without IF EXISTS.
        return [_alteration(lambda a: a.unset_table_properties(*keys, raise_if_not_exists=False))]
    if cursor.take("CLUSTER", "BY"):
        columns = () if cursor.take("NONE") else cursor.columns()
        return [_alteration(lambda a: a.cluster_by(*columns))]
    if cursor.take("REPLACE", "COLUMNS"):
        definitions = cursor.parenthesized_list(lambda: parse_column_definition(cursor))
        fields = [complete_field(column) for column in definitions]
        for column in fields:
            if {CURRENT_DEFAULT_KEY, GENERATION_EXPRESSION_KEY} & column.metadata.keys():
                raise cursor.error(f"name, type and comment of {column.name}", back=1)
        return [_replacement(fields)]
    raise cursor.error(
        "ADD, DROP, RENAME COLUMN, ALTER COLUMN, CHANGE COLUMN, SET TBLPROPERTIES, UNSET "
        "TBLPROPERTIES, REPLACE COLUMNS, SET LOCATION or CLUSTER BY"
    )


def _parse_add(cursor: TokenCursor) -> Callable[[TargetTable], object]:
    if cursor.take("CONSTRAINT"):
        name = cursor.name("the name of a constraint")
        cursor.expect("CHECK")
        condition = cursor.parenthesized()
        return _constraint(name, condition)
    if cursor.take("FEATURE"):
        feature = cursor.string_or_name("the name of a feature")
        return _alteration(lambda a: a.add_feature(feature))
    cursor.expect("COLUMN|COLUMNS")
    if cursor.next_are("("):
        columns = cursor.parenthesized_list(lambda: parse_column_definition(cursor))
    else:
        columns = cursor.comma_separated(lambda: parse_column_definition(cursor))
    return _addition(columns)


def _constraint(name: str, condition: str) -> Callable[[TargetTable], object]:
    def add(target: TargetTable) -> object:
        return add_constraint(
            target.engine,
            target.table.latest_snapshot(target.engine),
            name,
            condition,
            engine_info=SPARK_ENGINE_INFO,
            time_zone=target.time_zone,
        )

    return add


def _addition(columns: Sequence[NewColumn]) -> Callable[[TargetTable], object]:
    def add(target: TargetTable) -> object:
        snapshot = target.table.latest_snapshot(target.engine)
        return add_columns(target.engine, snapshot, columns, engine_info=SPARK_ENGINE_INFO)

    return add


def _replacement(columns: list[StructField]) -> Callable[[TargetTable], object]:
    def replace(target: TargetTable) -> object:
        snapshot = target.table.latest_snapshot(target.engine)
        return replace_columns(target.engine, snapshot, columns, engine_info=SPARK_ENGINE_INFO)

    return replace


def _parse_drop(cursor: TokenCursor) -> Callable[[TargetTable], object]:
    if cursor.take("CONSTRAINT"):
        if_exists = cursor.take("IF", "EXISTS")
        name = cursor.name("the name of a constraint")
        return _alteration(lambda a: a.drop_constraint(name, not if_exists))
    if cursor.take("FEATURE"):
        feature = cursor.string_or_name("the name of a feature")
        truncate = cursor.take("TRUNCATE", "HISTORY")
        return _alteration(lambda a: a.drop_feature(feature, truncate_history=truncate))
    cursor.expect("COLUMN|COLUMNS")
    if_exists = cursor.take("IF", "EXISTS")
    columns = cursor.columns() if cursor.next_are("(") else cursor.comma_separated(cursor.column)
    return lambda target: _drop_columns(target, columns, if_exists=if_exists)


def _drop_columns(target: TargetTable, columns: tuple[_Column, ...], *, if_exists: bool) -> object:
    if if_exists:
        schema = target.table.latest_snapshot(target.engine).schema
        names = {name.lower() for name in schema.names}
        columns = tuple(path for path in columns if path[0].lower() in names)
        if not columns:
            return None
    return target.handle.alter.drop_columns(*columns)


def _parse_rename(cursor: TokenCursor) -> Callable[[TargetTable], object]:
    column = cursor.column()
    cursor.expect("TO")
    name = cursor.column()[-1]
    return lambda target: _rename(target, column, name)


def _rename(target: TargetTable, column: _Column, name: str) -> object:
    if name.lower() == column[-1].lower() and not conf_flag(target.spark, _CASE_SENSITIVE):
        snapshot = target.table.latest_snapshot(target.engine)
        path = resolve_path(snapshot.path, snapshot.schema, column)
        raise SchemaError(
            f"{snapshot.path}: column {quote_path((*path[:-1], name))!r} already exists "
            "(FIELD_ALREADY_EXISTS). Names are case-insensitive. Choose another name; to change "
            f"only the case of a name, set {_CASE_SENSITIVE} to true.",
            table=snapshot.path,
            column=name,
        )
    return target.handle.alter.rename_column(column, name)


_CASE_SENSITIVE = "spark.sql.caseSensitive"


def _parse_change_column(cursor: TokenCursor) -> list[Callable[[TargetTable], object]]:
    column = cursor.column()
    if cursor.take("TYPE"):
        field = parse_column_type(cursor, column[-1])
        return [_alteration(lambda a: a.change_type(column, field.data_type))]
    if cursor.take("SET", "NOT", "NULL"):
        return [_alteration(lambda a: a.set_column_not_null(column))]
    if cursor.take("DROP", "NOT", "NULL"):
        return [_alteration(lambda a: a.drop_column_not_null(column))]
    if cursor.take("SET", "DEFAULT"):
        value = cursor.until_end("the value of DEFAULT")
        return [_alteration(lambda a: a.set_default(column, value))]
    if cursor.take("DROP", "DEFAULT"):
        return [_alteration(lambda a: a.drop_default(column))]
    if cursor.take("COMMENT"):
        comment = cursor.string("a comment")
        return [_alteration(lambda a: a.set_comment(column, comment))]
    if cursor.next_are("FIRST|AFTER"):
        return [_move(column, parse_position(cursor))]
    if cursor.take("SYNC", "IDENTITY"):
        return [_alteration(lambda a: a.sync_identity(column))]
    return _hive_changes(column, parse_column_definition(cursor))


def _hive_changes(column: _Column, definition: NewColumn) -> list[Callable[[TargetTable], object]]:
    """Return the changes of `CHANGE COLUMN name new_name type [COMMENT ..] [FIRST | AFTER ..]`.

    This is Hive's syntax. Unlike Spark, Bayou permits that `new_name` differs from `name`. The
    column is then renamed in a commit before the other changes.

    Args:
        column: the path of the column.
        definition: the new name and the other changes.
    """
    to = definition.path[-1]
    changes: list[Callable[[TargetTable], object]] = []
    if to.lower() != column[-1].lower():
        changes.append(_alteration(lambda a: a.rename_column(column, to)))
    renamed = (*column[:-1], to)
    changes.append(lambda target: _change_column(target, renamed, definition))
    return changes


def _change_column(target: TargetTable, column: _Column, definition: NewColumn) -> object:
    snapshot = target.table.latest_snapshot(target.engine)
    return change_column(
        target.engine,
        snapshot,
        column,
        to=definition.field,
        comment=definition.comment,
        position=definition.position,
        engine_info=SPARK_ENGINE_INFO,
    )


def _move(column: _Column, to: str | None) -> Callable[[TargetTable], object]:
    return _alteration(lambda a: a.move_column(column, first=to == "", after=to or None))


def _alteration(change: Callable[[TableAlterer], object]) -> Callable[[TargetTable], object]:
    return lambda target: change(target.handle.alter)
