"""Columns and properties as `CREATE TABLE` and `ALTER TABLE` define them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bayou.errors import StatementError
from bayou.kernel.commands.alter.columns import NewColumn
from bayou.kernel.commands.create_table import generated_column, identity_column
from bayou.protocol.column_rules import CURRENT_DEFAULT_KEY
from bayou.protocol.schema import SchemaJsonError, StructField
from bayou.protocol.type_string import field_from_text
from bayou.spark.sql_statements.token_cursor import Words

__all__ = [
    "ColumnDefinition",
    "column_definition",
    "column_type",
    "is_behind_type",
    "position",
    "properties",
    "property_keys",
]

_BEHIND_TYPE = "NOT|NULL|DEFAULT|GENERATED|COMMENT|FIRST|AFTER|CONSTRAINT|,|)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    """A column.

    Attributes:
        path: its name, behind that of the struct that it is in.
        field: name, type, nullability and metadata.
        comment: free text.
        default: SQL text.
        position: see `NewColumn`.
    """

    path: tuple[str, ...]
    field: StructField
    comment: str | None = None
    default: str | None = None
    position: str | None = None

    @property
    def whole_field(self) -> StructField:
        """With comment and default in its metadata."""
        marks = {"comment": self.comment, CURRENT_DEFAULT_KEY: self.default}
        given = {key: value for key, value in marks.items() if value is not None}
        return replace(self.field, metadata={**self.field.metadata, **given})

    @property
    def new_column(self) -> NewColumn:
        """For a table that is there."""
        return NewColumn(
            path=self.path,
            field=self.field,
            comment=self.comment,
            default=self.default,
            position=self.position,
        )


def column_definition(words: Words) -> ColumnDefinition:
    """`name type [NOT NULL] [DEFAULT ..] [GENERATED ..] [COMMENT ..] [FIRST | AFTER ..]`."""
    path = words.column()
    field = column_type(words, path[-1])
    comment = default = place = None
    while not words.ended:
        if words.take("NOT", "NULL"):
            field = replace(field, nullable=False)
        elif words.take("NULL"):
            pass
        elif words.take("DEFAULT"):
            default = words.until(_clause(words), what="the value of DEFAULT")
        elif words.take("GENERATED"):
            field = _generated(words, field)
        elif words.take("COMMENT"):
            comment = words.string("a comment")
        elif words.begin_with("FIRST|AFTER"):
            place = position(words)
        elif words.begin_with(",|)"):
            break
        else:
            raise words.error("NOT NULL, DEFAULT, GENERATED, COMMENT, a comma or a parenthesis")
    return ColumnDefinition(
        path=path, field=field, comment=comment, default=default, position=place
    )


def column_type(words: Words, name: str) -> StructField:
    """A type, of a column of that name."""
    text = words.until(
        lambda: is_behind_type(words), what=f"the type of column {name!r}", angles=True
    )
    try:
        return field_from_text(name, text)
    except SchemaJsonError as error:
        message = f"Column {name!r}: {error}."
        raise StatementError(message, statement=words.text) from error


def is_behind_type(words: Words) -> bool:
    """Whether what stands here is no part of a type any more."""
    return words.begin_with(_BEHIND_TYPE)


def position(words: Words) -> str | None:
    """`FIRST` or `AFTER column`, as of `NewColumn`."""
    if words.take("FIRST"):
        return ""
    return words.name("the name of a column") if words.take("AFTER") else None


def properties(words: Words) -> dict[str, str]:
    """`('key' = 'value', a.b = 1, ...)`."""
    return dict(words.several(lambda: _property(words)))


def property_keys(words: Words) -> tuple[str, ...]:
    """`('key', a.b, ...)`."""
    return words.several(lambda: _key(words))


def _property(words: Words) -> tuple[str, str]:
    key = _key(words)
    words.take("=")
    if words.begin_with(",|)"):
        return key, ""
    text = words.until_words(",", what="the value of a property")
    inside = Words(text)
    if text[:1] in ("'", '"'):
        return key, inside.string("a value")
    return key, text.lower() if text.lower() in ("true", "false") else text


def _key(words: Words) -> str:
    what = "the name of a property"
    return words.string(what) if words.at_text else ".".join(words.column(what))


def _generated(words: Words, field: StructField) -> StructField:
    by_default = words.take("BY", "DEFAULT")
    if not by_default:
        words.expect("ALWAYS")
    words.expect("AS")
    if not words.take("IDENTITY"):
        if by_default:
            raise words.error("IDENTITY")
        return generated_column(field, words.parenthesized())
    start = step = 1
    if words.take("("):
        while not words.take(")"):
            if words.take("START", "WITH"):
                start = words.integer("a whole number")
            elif words.take("INCREMENT", "BY"):
                step = words.integer("a whole number")
            else:
                raise words.error("START WITH n, INCREMENT BY n or a parenthesis")
            words.take(",")
    return identity_column(field, start=start, step=step, allow_explicit=by_default)


def _clause(words: Words) -> Callable[[], bool]:
    return lambda: (
        words.begin_with("NOT", "NULL") or words.begin_with("COMMENT|FIRST|AFTER|GENERATED|,")
    )
