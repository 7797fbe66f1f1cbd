"""Tokens, names, literals and types in Spark's SQL, such as `` `a b` `` and `decimal(10,2)`.

The names of types in PROTOCOL.md (`long`, `integer`, ...) are also accepted. As in Spark, a column
declared as `char(n)` or `varchar(n)` is a string column. Its metadata contains the declared type
under `__CHAR_VARCHAR_TYPE_STRING`.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from bayou.protocol.column_metadata import CHAR_VARCHAR_KEY
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
    GeographyType,
    GeometryType,
    MapType,
    SchemaJsonError,
    StructField,
    StructType,
)


class Token(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A token of SQL text.

    Attributes:
        text: the token's text, without backticks or quotes. Escapes in strings are replaced.
        kind: `word`, `quoted` (a name in backticks), `string`, `binary` (`X'00ff'`), `number` (with
            its suffix), `sign`, or `open` (the start of an unclosed quote or comment).
    """

    text: str
    kind: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether the token can name a column or table: a word, or anything in backticks."""
        return self.kind == "quoted" or (self.kind == "word" and self.text.isidentifier())

    @property
    def is_string(self) -> bool:
        """Whether the token is a string literal."""
        return self.kind == "string"

    @property
    def is_number(self) -> bool:
        """Whether the token is a number without a sign."""
        return self.kind == "number"

    def is_keyword(self, *keywords: str) -> bool:
        """Whether the token is one of `keywords`, ignoring the case of the token.

        Args:
            *keywords: unquoted words in upper case, or signs.
        """
        return self.kind in ("word", "sign") and self.text.upper() in keywords


_TOKEN = re.compile(
    r"""(?:\s++|--(?:\\\n|[^\r\n])*+)*+(?:
        (?P<number>(?:[0-9]+(?:\.[0-9]*)?|(?<![\w`])\.[0-9]+)
            (?:e[+-]?[0-9]+)?(?:bd|[lsyfd])?(?!\w))
      | (?P<raw>r(?:'[^']*'|"[^"]*"))
      | (?P<binary>x(?:'[^']*'|"[^"]*"))
      | (?P<word>\w+)
      | (?P<string>'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")
      | `(?P<quoted>(?:[^`]++|``)*+)`
      | (?P<comment>/\*)
      | (?P<open>['"`])
      | (?P<sign>::|\{\{|\}\}|.)
    )""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def tokenize(sql: str) -> Iterator[Token]:
    """Split SQL into tokens; drop comments and blanks.

    Any SQL can be split: an unclosed quote or comment becomes a token of the kind `open`.
    """
    at = 0
    while (match := _TOKEN.match(sql, at)) is not None:
        kind = match.lastgroup
        assert kind is not None  # each alternative has a group
        text = match[kind]
        start, at = match.start(kind), match.end()
        match kind:
            case "string":
                text = _unescape(text)
            case "raw":
                kind, text = "string", text[2:-1]
            case "quoted":
                start, text = start - 1, text.replace("``", "`")
            case "comment":
                end = _comment_end(sql, start)
                if end is not None:
                    at = end
                    continue
                kind = "open"
        yield Token(text=text, kind=kind, start=start, end=at)


def _comment_end(sql: str, start: int) -> int | None:
    """Return the end offset of the comment at `start`; None if the comment isn't closed.

    Comments can be nested.
    """
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


def number_text(string: str) -> str:
    """Return the text of a number without surrounding blanks.

    Raises:
        ValueError: the string contains an underscore or a non-ASCII character. Python accepts both
            in numbers, but Spark doesn't.
    """
    text = string.strip()
    if "_" in text or not text.isascii():
        raise ValueError(string)
    return text


def string_literal(string: str) -> str:
    """Return a string as a SQL literal that sqlglot and Spark read in the same way."""
    return "'" + string.replace("\\", "\\\\").replace("'", "\\'") + "'"


_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<one>.))"
    r"|(?P<twice>''|\"\")",
    re.DOTALL,
)
_ESCAPED = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}


def _unescape(literal: str) -> str:
    quote, body = literal[0], literal[1:-1]
    if "\\" not in body and quote not in body:
        return body

    def value(match: re.Match[str]) -> str:
        if code := match["short"] or match["long"]:
            return chr(min(int(code, 16), sys.maxunicode))
        if octal := match["octal"]:
            return chr(int(octal, 8))
        if twice := match["twice"]:
            return quote if twice == quote * 2 else twice
        return _ESCAPED.get(match["one"], match["one"])

    string = _ESCAPE.sub(value, body)
    # Two \uXXXX escapes can be the surrogates of one character.
    return string.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
    """Maximum length of the values of a `char` or `varchar` type."""

    path: tuple[str, ...]
    kind: str
    max_length: int

    def __str__(self) -> str:
        return f"{self.kind}({self.max_length})"


def parse_field(name: str, sql: str, *, timestamp: DataType = TIMESTAMP) -> StructField:
    """Create a nullable column from its name and its type in SQL.

    If the type contains `char` or `varchar`, the column's metadata stores the SQL of the type under
    `__CHAR_VARCHAR_TYPE_STRING`.

    Args:
        timestamp: the type that the name `timestamp` stands for.

    Raises:
        SchemaJsonError: the SQL isn't a type.
    """
    parser = _Parser(sql, timestamp)
    parsed = parser.type()
    parser.end()
    metadata = {CHAR_VARCHAR_KEY: parsed.sql} if parsed.limits else {}
    return StructField(name=name, data_type=parsed.data_type, metadata=metadata)


def length_limits(field: StructField) -> tuple[LengthLimit, ...]:
    """Return the `char` and `varchar` limits of a column and of the types nested in it.

    Raises:
        SchemaJsonError: the SQL in `__CHAR_VARCHAR_TYPE_STRING` can't be parsed.
    """
    sql = field.metadata.get(CHAR_VARCHAR_KEY)
    if sql is None:
        return ()
    parser = _Parser(str(sql))
    limits = parser.type().limits
    parser.end()
    return limits


def has_char(field: StructField) -> bool:
    """Whether a column is or contains a `char`.

    False if the SQL in `__CHAR_VARCHAR_TYPE_STRING` can't be parsed.
    """
    with contextlib.suppress(SchemaJsonError):
        return any(limit.kind == "char" for limit in length_limits(field))
    return False


def quote_identifier(name: str) -> str:
    """Put a name in backticks: `` `a b` ``."""
    return "`" + name.replace("`", "``") + "`"


def unquoted_identifier(text: str) -> str | None:
    """Remove the backticks from a quoted name; None if `text` isn't a single quoted name."""
    match = _IN_BACKTICKS.fullmatch(text)
    return None if match is None else match[1].replace("``", "`")


_IN_BACKTICKS = re.compile(r"`((?:[^`]|``)+)`")


def quote_if_needed(name: str) -> str:
    """Put a name in backticks if it has characters other than letters, digits and underscores."""
    return name if name.replace("_", "").isalnum() else quote_identifier(name)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A type parsed from SQL.

    Attributes:
        data_type: the type; `char` and `varchar` are replaced by string.
        sql: SQL of the type, with `char` and `varchar`.
    """

    data_type: DataType
    sql: str
    limits: tuple[LengthLimit, ...] = ()


def _inside(step: str, limits: tuple[LengthLimit, ...]) -> tuple[LengthLimit, ...]:
    return tuple(replace(limit, path=(step, *limit.path)) for limit in limits)


class _Parser:
    def __init__(self, sql: str, timestamp: DataType = TIMESTAMP) -> None:
        self._sql = sql
        self._timestamp = timestamp
        self._tokens = list(tokenize(sql))
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
            case "geometry" | "geography":
                numbers = self._numbers() or [_DEFAULT_SRID]
                crs = _CRS_BY_SRID.get(numbers[0], f"EPSG:{numbers[0]}")
                geospatial = GeometryType(crs) if name == "geometry" else GeographyType(crs)
                return _Parsed(geospatial, f"{name}({numbers[0]})")
            case _ if name in _NAMES:
                primitive = self._timestamp if name == "timestamp" else _NAMES[name]
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
            metadata = {"comment": self._string()} if self._accept("comment") else {}
            fields.append(
                StructField(
                    name=name, data_type=parsed.data_type, nullable=nullable, metadata=metadata
                )
            )
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
        following = self._tokens[self._next : self._next + 1]
        if not following or following[0].kind not in ("word", "quoted", "number"):
            raise self._error()
        self._next += 1
        return self._tokens[self._next - 1].text

    def _string(self) -> str:
        if self._next == len(self._tokens) or not self._tokens[self._next].is_string:
            raise self._error()
        self._next += 1
        return self._tokens[self._next - 1].text

    def _accept(self, token: str) -> bool:
        if self._next < len(self._tokens) and self._tokens[self._next].is_keyword(token.upper()):
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


_DEFAULT_SRID = 4326
_CRS_BY_SRID = {0: "SRID:0", 4326: "OGC:CRS84"}
"""Coordinate reference systems by SRID. Spark reads every other SRID as an EPSG code."""

_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
