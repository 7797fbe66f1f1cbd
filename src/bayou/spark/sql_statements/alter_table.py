"""`ALTER TABLE`, and `COMMENT ON TABLE`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayou.api.alter import Alter
from bayou.kernel.commands.alter.change_column import change_column
from bayou.kernel.commands.alter.columns import NewColumn, add_columns
from bayou.spark.catalog_tables import refresh_columns
from bayou.spark.sql_statements.column_definitions import (
    ColumnDefinition,
    column_definition,
    column_type,
    position,
    properties,
    property_keys,
)
from bayou.spark.sql_statements.context import StatementContext
from bayou.spark.sql_statements.token_cursor import TableName, Words
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable

__all__ = ["AlterTable", "parse_alter_table", "parse_comment"]

_Column = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """`ALTER TABLE table ...`: one change, or several of one column, each a commit."""

    table: TableName
    changes: tuple[Callable[[TargetTable], object], ...]

    def run(self, context: StatementContext) -> Any:
        """A table's schema, properties, constraints or features changed."""
        target = context.found(self.table)
        if target is None:
            return NotImplemented
        for change in self.changes:
            change(target)
        if target.name is not None and context.is_classic:
            refresh_columns(context.spark, target.name, target.path)
        return context.nothing()


def parse_alter_table(words: Words) -> AlterTable | None:
    """Behind `ALTER`; None for what isn't a table, and for what Spark's catalog does."""
    if not words.take("TABLE"):
        return None
    table = words.table()
    if words.begin_with("RENAME", "TO"):
        return None
    changes = _changes(words)
    words.end()
    return AlterTable(table=table, changes=tuple(changes))


def parse_comment(words: Words) -> AlterTable | None:
    """Behind `COMMENT`; None for what isn't a table."""
    if not words.take("ON", "TABLE"):
        return None
    table = words.table()
    words.expect("IS")
    text = "" if words.take("NULL") else words.string("a comment")
    words.end()
    return AlterTable(
        table=table, changes=(_altering(lambda a: a.set_properties({"comment": text})),)
    )


def _changes(words: Words) -> list[Callable[[TargetTable], object]]:
    if words.take("ADD"):
        return [_added(words)]
    if words.take("DROP"):
        return [_dropped(words)]
    if words.take("RENAME", "COLUMN"):
        return [_renamed(words)]
    if words.take("ALTER|CHANGE"):
        words.take("COLUMN")
        return _changed_column(words)
    if words.take("SET", "TBLPROPERTIES"):
        given = properties(words)
        return [_altering(lambda a: a.set_properties(given))]
    if words.take("UNSET", "TBLPROPERTIES"):
        words.take("IF", "EXISTS")
        keys = property_keys(words)
        # delta-spark passes over properties that aren't there, with IF EXISTS and without.
        return [_altering(lambda a: a.unset_properties(*keys, if_exists=True))]
    if words.take("CLUSTER", "BY"):
        columns = () if words.take("NONE") else words.columns()
        return [_altering(lambda a: a.cluster_by(*columns))]
    if words.begin_with("REPLACE", "COLUMNS"):
        raise words.error(
            "ADD COLUMNS, DROP COLUMNS or RENAME COLUMN (REPLACE COLUMNS isn't supported)"
        )
    raise words.error(
        "ADD, DROP, RENAME COLUMN, ALTER COLUMN, CHANGE COLUMN, SET TBLPROPERTIES, UNSET "
        "TBLPROPERTIES or CLUSTER BY"
    )


def _added(words: Words) -> Callable[[TargetTable], object]:
    if words.take("CONSTRAINT"):
        name = words.name("the name of a constraint")
        words.expect("CHECK")
        condition = words.parenthesized()
        return _altering(lambda a: a.add_constraint(name, condition))
    if words.take("FEATURE"):
        feature = words.string_or_name("the name of a feature")
        return _altering(lambda a: a.add_feature(feature))
    words.expect("COLUMN|COLUMNS")
    if words.begin_with("("):
        found = words.several(lambda: column_definition(words))
    else:
        definitions = [column_definition(words)]
        while words.take(","):
            definitions.append(column_definition(words))
        found = tuple(definitions)
    return _adding([definition.new_column for definition in found])


def _adding(columns: list[NewColumn]) -> Callable[[TargetTable], object]:
    def add(target: TargetTable) -> object:
        snapshot = target.table.latest_snapshot(target.engine)
        return add_columns(target.engine, snapshot, columns, engine_info=SPARK_ENGINE_INFO)

    return add


def _dropped(words: Words) -> Callable[[TargetTable], object]:
    if words.take("CONSTRAINT"):
        if_exists = words.take("IF", "EXISTS")
        name = words.name("the name of a constraint")
        return _altering(lambda a: a.drop_constraint(name, if_exists=if_exists))
    if words.take("FEATURE"):
        feature = words.string_or_name("the name of a feature")
        truncate = words.take("TRUNCATE", "HISTORY")
        return _altering(lambda a: a.drop_feature(feature, truncate_history=truncate))
    words.expect("COLUMN|COLUMNS")
    if_exists = words.take("IF", "EXISTS")
    if words.begin_with("("):
        columns = words.columns()
    else:
        found = [words.column()]
        while words.take(","):
            found.append(words.column())
        columns = tuple(found)
    return lambda target: _drop_columns(target, columns, if_exists=if_exists)


def _drop_columns(target: TargetTable, columns: tuple[_Column, ...], *, if_exists: bool) -> object:
    if if_exists:
        schema = target.table.latest_snapshot(target.engine).schema
        names = {name.lower() for name in schema.names}
        columns = tuple(path for path in columns if path[0].lower() in names)
        if not columns:
            return None
    return target.handle.alter.drop_columns(*columns)


def _renamed(words: Words) -> Callable[[TargetTable], object]:
    column = words.column()
    words.expect("TO")
    name = words.column()[-1]
    return _altering(lambda a: a.rename_column(column, name))


def _changed_column(words: Words) -> list[Callable[[TargetTable], object]]:
    column = words.column()
    if words.take("TYPE"):
        field = column_type(words, column[-1])
        return [_altering(lambda a: a.change_type(column, field.data_type))]
    if words.take("SET", "NOT", "NULL"):
        return [_altering(lambda a: a.set_not_null(column))]
    if words.take("DROP", "NOT", "NULL"):
        return [_altering(lambda a: a.drop_not_null(column))]
    if words.take("SET", "DEFAULT"):
        value = words.rest("the value of DEFAULT")
        return [_altering(lambda a: a.set_default(column, value))]
    if words.take("DROP", "DEFAULT"):
        return [_altering(lambda a: a.drop_default(column))]
    if words.take("COMMENT"):
        comment = words.string("a comment")
        return [_altering(lambda a: a.set_comment(column, comment))]
    if words.begin_with("FIRST|AFTER"):
        return [_moved(column, position(words))]
    if words.take("SYNC", "IDENTITY"):
        return [_altering(lambda a: a.sync_identity(column))]
    return _as_hive_says(column, column_definition(words))


def _as_hive_says(
    column: _Column, wanted: ColumnDefinition
) -> list[Callable[[TargetTable], object]]:
    """`CHANGE COLUMN name new_name type [COMMENT ..] [FIRST | AFTER ..]`: one commit, and one
    before it for another name, which Spark itself refuses here.
    """
    to = wanted.path[-1]
    changes: list[Callable[[TargetTable], object]] = []
    if to.lower() != column[-1].lower():
        changes.append(_altering(lambda a: a.rename_column(column, to)))
    now = (*column[:-1], to)
    changes.append(lambda target: _change_column(target, now, wanted))
    return changes


def _change_column(target: TargetTable, column: _Column, wanted: ColumnDefinition) -> object:
    snapshot = target.table.latest_snapshot(target.engine)
    return change_column(
        target.engine,
        snapshot,
        column,
        to=wanted.field,
        comment=wanted.comment,
        position=wanted.position,
        engine_info=SPARK_ENGINE_INFO,
    )


def _moved(column: _Column, place: str | None) -> Callable[[TargetTable], object]:
    return _altering(lambda a: a.move_column(column, first=place == "", after=place or None))


def _altering(change: Callable[[Alter], object]) -> Callable[[TargetTable], object]:
    return lambda target: change(target.handle.alter)
