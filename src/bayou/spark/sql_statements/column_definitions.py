"""Parsers of the column definitions and properties of `CREATE TABLE` and `ALTER TABLE`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bayou.errors import StatementError
from bayou.kernel.commands.alter.columns import NewColumn
from bayou.kernel.commands.create_table import generated_column, identity_column
from bayou.protocol.column_metadata import CURRENT_DEFAULT_KEY
from bayou.protocol.schema import SchemaJsonError, StructField
from bayou.protocol.sql import parse_field
from bayou.spark.sql_statements.token_cursor import TokenCursor

_AFTER_TYPE = "NOT|NULL|DEFAULT|GENERATED|COMMENT|FIRST|AFTER|CONSTRAINT|,|)"


def complete_field(column: NewColumn) -> StructField:
    """Return the field of a new column, with the comment and default added to the metadata."""
    optional = {"comment": column.comment, CURRENT_DEFAULT_KEY: column.default}
    added = {key: value for key, value in optional.items() if value is not None}
    return replace(column.field, metadata={**column.field.metadata, **added})


def parse_column_definition(cursor: TokenCursor) -> NewColumn:
    """Parse `name type [NOT NULL] [DEFAULT ..] [GENERATED ..] [COMMENT ..] [FIRST | AFTER ..]`."""
    path = cursor.column()
    field = parse_column_type(cursor, path[-1])
    comment = default = position = None
    while not cursor.at_end:
        if cursor.take("NOT", "NULL"):
            field = replace(field, nullable=False)
        elif cursor.take("NULL"):
            pass
        elif cursor.take("DEFAULT"):
            default = cursor.until(_default_end(cursor), expected="the value of DEFAULT")
        elif cursor.take("GENERATED"):
            field = _parse_generated(cursor, field)
        elif cursor.take("COMMENT"):
            comment = cursor.string("a comment")
        elif cursor.next_are("FIRST|AFTER"):
            position = parse_position(cursor)
        elif cursor.next_are(",|)"):
            break
        else:
            raise cursor.error("NOT NULL, DEFAULT, GENERATED, COMMENT, a comma or a parenthesis")
    return NewColumn(path=path, field=field, comment=comment, default=default, position=position)


def parse_column_type(cursor: TokenCursor, name: str) -> StructField:
    """Parse the data type of column `name`, and return the column as a field."""
    type_string = cursor.until(
        lambda: is_at_type_end(cursor), expected=f"the type of column {name!r}", angles=True
    )
    try:
        return parse_field(name, type_string, timestamp=cursor.settings.timestamp)
    except SchemaJsonError as error:
        message = f"Column {name!r}: {error}."
        raise StatementError(message, statement=cursor.text) from error


def is_at_type_end(cursor: TokenCursor) -> bool:
    """Whether the next token is one that ends a data type, such as a comma or `COMMENT`."""
    return cursor.next_are(_AFTER_TYPE)


def parse_position(cursor: TokenCursor) -> str | None:
    """Parse a column's position, `FIRST` or `AFTER b`.

    Returns "" for `FIRST`, `b` for `AFTER b`, and None if the next token is neither.
    """
    if cursor.take("FIRST"):
        return ""
    return cursor.name("the name of a column") if cursor.take("AFTER") else None


def parse_properties(cursor: TokenCursor) -> dict[str, str]:
    """Parse table properties: `('key' = 'value', a.b = 1, ...)`."""
    return dict(cursor.parenthesized_list(lambda: _parse_property(cursor)))


def parse_property_keys(cursor: TokenCursor) -> tuple[str, ...]:
    """Parse the keys of table properties: `('key', a.b, ...)`."""
    return cursor.parenthesized_list(lambda: _parse_key(cursor))


def _parse_property(cursor: TokenCursor) -> tuple[str, str]:
    key = _parse_key(cursor)
    cursor.take("=")
    if cursor.next_are(",|)"):
        return key, ""
    value = cursor.until_keywords(",", expected="the value of a property")
    if value[:1] in ("'", '"'):
        return key, TokenCursor(value).string("a value")
    return key, value.lower() if value.lower() in ("true", "false") else value


def _parse_key(cursor: TokenCursor) -> str:
    expected = "the name of a property"
    return cursor.string(expected) if cursor.at_string else ".".join(cursor.column(expected))


def _parse_generated(cursor: TokenCursor, field: StructField) -> StructField:
    by_default = cursor.take("BY", "DEFAULT")
    if not by_default:
        cursor.expect("ALWAYS")
    cursor.expect("AS")
    if not cursor.take("IDENTITY"):
        if by_default:
            raise cursor.error("IDENTITY")
        return generated_column(field, cursor.parenthesized())
    start = step = 1
    if cursor.take("("):
        while not cursor.take(")"):
            if cursor.take("START", "WITH"):
                start = cursor.integer("a whole number")
            elif cursor.take("INCREMENT", "BY"):
                step = cursor.integer("a whole number")
            else:
                raise cursor.error("START WITH n, INCREMENT BY n or a parenthesis")
            cursor.take(",")
    return identity_column(field, start=start, step=step, allow_explicit=by_default)


def _default_end(cursor: TokenCursor) -> Callable[[], bool]:
    return lambda: (
        cursor.next_are("NOT", "NULL") or cursor.next_are("COMMENT|FIRST|AFTER|GENERATED|,")
    )
