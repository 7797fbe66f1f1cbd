"""Types in SQL: `bigint`, `decimal(10,2)`, `array<struct<a: int not null>>`.

The names of PROTOCOL.md (`long`, `integer`, ...) are accepted too. `char(n)` and `varchar(n)` are
strings. As in Spark, the column's metadata keeps the SQL of its full type under
`__CHAR_VARCHAR_TYPE_STRING`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from bayou.protocol.column_rules import CHAR_VARCHAR_KEY
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    SchemaJsonError,
    StructField,
    StructType,
)

__all__ = ["LengthLimit", "length_limits", "parse_field", "parse_type"]

_NAMES: dict[str, DataType] = {
    "string": STRING,
    "bigint": LONG,
    "long": LONG,
    "int": INTEGER,
    "integer": INTEGER,
    "smallint": SHORT,
    "short": SHORT,
    "tinyint": BYTE,
    "byte": BYTE,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "variant": VARIANT,
    "void": VOID,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthLimit:
    """Maximum length of the strings of a `char` or `varchar` type.

    Attributes:
        path: path of the type in its column, with `element`, `key` and `value` for arrays and maps.
        kind: `char` or `varchar`.
        max_length: maximum number of characters.
    """

    path: tuple[str, ...]
    kind: str
    max_length: int

    def __str__(self) -> str:
        return f"{self.kind}({self.max_length})"


def parse_type(sql: str) -> DataType:
    """Parse a type in SQL.

    Raises:
        SchemaJsonError: the SQL isn't a type.
    """
    return parse_field("", sql).data_type


def parse_field(name: str, sql: str) -> StructField:
    """A nullable column of a type in SQL, with the metadata of `char` and `varchar`.

    Raises:
        SchemaJsonError: the SQL isn't a type.
    """
    parser = _Parser(sql)
    parsed = parser.type()
    parser.end()
    metadata = {CHAR_VARCHAR_KEY: parsed.sql} if parsed.limits else {}
    return StructField(name=name, data_type=parsed.data_type, metadata=metadata)


def length_limits(field: StructField) -> tuple[LengthLimit, ...]:
    """The `char` and `varchar` limits of a column and of the types nested in it.

    Raises:
        SchemaJsonError: the metadata isn't a type.
    """
    sql = field.metadata.get(CHAR_VARCHAR_KEY)
    if sql is None:
        return ()
    parser = _Parser(str(sql))
    limits = parser.type().limits
    parser.end()
    return limits


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A parsed type, and its SQL with `char` and `varchar`."""

    data_type: DataType
    sql: str
    limits: tuple[LengthLimit, ...] = ()


def _inside(step: str, limits: tuple[LengthLimit, ...]) -> tuple[LengthLimit, ...]:
    return tuple(replace(limit, path=(step, *limit.path)) for limit in limits)


_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([\w]+)|(.))")


class _Parser:
    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._tokens = [
            (m[1].replace("``", "`") if m[1] else m[2] or m[3], m[1] is not None)
            for m in _TOKEN.finditer(sql.strip())
        ]
        self._next = 0

    def type(self) -> _Parsed:
        name = self._take().lower()
        match name:
            case "array":
                self._expect("<")
                element = self.type()
                self._expect(">")
                return _Parsed(
                    ArrayType(element_type=element.data_type),
                    f"array<{element.sql}>",
                    _inside("element", element.limits),
                )
            case "map":
                self._expect("<")
                key = self.type()
                self._expect(",")
                value = self.type()
                self._expect(">")
                return _Parsed(
                    MapType(key_type=key.data_type, value_type=value.data_type),
                    f"map<{key.sql},{value.sql}>",
                    (*_inside("key", key.limits), *_inside("value", value.limits)),
                )
            case "struct":
                return self._struct()
            case "decimal" | "dec" | "numeric":
                numbers = self._numbers() or [10]
                decimal = DecimalType(numbers[0], numbers[1] if len(numbers) > 1 else 0)
                return _Parsed(decimal, str(decimal))
            case "char" | "character" | "varchar":
                numbers = self._numbers()
                if len(numbers) != 1 or numbers[0] < 1:
                    raise self._error()
                kind = "varchar" if name == "varchar" else "char"
                limit = LengthLimit(path=(), kind=kind, max_length=numbers[0])
                return _Parsed(STRING, f"{kind}({numbers[0]})", (limit,))
            case _ if name in _NAMES:
                primitive = _NAMES[name]
                return _Parsed(primitive, _SQL_NAMES.get(str(primitive), str(primitive)))
            case _:
                raise self._error()

    def _struct(self) -> _Parsed:
        self._expect("<")
        fields: list[StructField] = []
        members: list[str] = []
        limits: tuple[LengthLimit, ...] = ()
        while not self._accept(">"):
            if fields:
                self._expect(",")
            name = self._take()
            self._accept(":")
            parsed = self.type()
            nullable = not (self._accept("not") and self._expect("null"))
            fields.append(StructField(name=name, data_type=parsed.data_type, nullable=nullable))
            members.append(f"{name}:{parsed.sql}")
            limits += _inside(name, parsed.limits)
        return _Parsed(StructType(tuple(fields)), f"struct<{','.join(members)}>", limits)

    def _numbers(self) -> list[int]:
        if not self._accept("("):
            return []
        numbers: list[int] = []
        while not self._accept(")"):
            if numbers:
                self._expect(",")
            token = self._take()
            if not token.isdecimal():
                raise self._error()
            numbers.append(int(token))
        return numbers

    def _take(self) -> str:
        if self._next >= len(self._tokens):
            raise self._error()
        self._next += 1
        return self._tokens[self._next - 1][0]

    def _accept(self, token: str) -> bool:
        if self._next < len(self._tokens) and self._tokens[self._next] in (
            (token, False),
            (token.upper(), False),
        ):
            self._next += 1
            return True
        return False

    def _expect(self, token: str) -> bool:
        if not self._accept(token):
            raise self._error()
        return True

    def end(self) -> None:
        if self._next < len(self._tokens):
            raise self._error()

    def _error(self) -> SchemaJsonError:
        return SchemaJsonError(
            f"{self._sql!r} isn't a type: expected one such as 'bigint', 'decimal(10,2)', "
            "'array<string>', 'struct<a: int, b: date>'"
        )


_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
