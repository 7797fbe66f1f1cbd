"""SQL text to predicates, in Spark's dialect.

sqlglot is imported on use, so that the kernel works without it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from bayou.errors import PredicateError, PrerequisiteError
from bayou.kernel.predicates.model import (
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    LiteralValue,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from bayou.kernel.predicates.resolution import literal_of, parse_timestamp
from bayou.protocol.schema import (
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
    DataType,
    DecimalType,
)

__all__ = ["parse_predicate"]

_SUPPORTED = (
    "Supported are =, <>, <, <=, >, >=, <=>, AND, OR, NOT, IN, BETWEEN, IS [NOT] NULL/TRUE/FALSE, "
    "LIKE 'prefix%', startswith and isnan, between columns and constants."
)


def parse_predicate(text: str) -> Predicate:
    """Parse a condition such as `day = DATE'2024-01-05' AND (id > 10 OR name IS NULL)`.

    Strings are unescaped as Spark does; a timestamp without zone is in UTC.

    Raises:
        PredicateError: not SQL, or a part that isn't supported; names the part.
        PrerequisiteError: sqlglot isn't installed.
    """
    try:
        import sqlglot
        import sqlglot.errors
    except ImportError as error:
        raise PrerequisiteError(
            "Filters as SQL text need the package sqlglot: pip install sqlglot.", what="sqlglot"
        ) from error
    strings: list[str] = []
    try:
        tree = sqlglot.parse_one(_lift_strings(text, strings), dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        reason = str(error).split("\n", 1)[0]
        raise PredicateError(
            f"The filter {text!r} isn't valid SQL: {reason}", expression=text
        ) from error
    return _Translator(text, strings).predicate(tree)


# A quoted name, or a string with its prefix: these are where a quote may stand in SQL.
_QUOTED = re.compile(
    r"`(?:[^`]|``)*`"
    r"|(?P<hex>\b[xX])(?:'[^']*'|\"[^\"]*\")"
    r"|(?P<raw>\b[rR])?(?:'(?P<single>(?:[^'\\]|\\.|'')*)'|\"(?P<double>(?:[^\"\\]|\\.|\"\")*)\")"
    r"|--[^\n]*|/\*.*?\*/",
    re.DOTALL,
)
_LIFTED = re.compile("bayou string ([0-9]+)")


def _lift_strings(text: str, strings: list[str]) -> str:
    """Put numbered stand-ins for string constants, whose values go to `strings`.

    The parser's own idea of escapes isn't Spark's.
    """

    def lift(match: re.Match[str]) -> str:
        body = match["single"] if match["single"] is not None else match["double"]
        if body is None or match["hex"]:
            return match[0]
        quote = "'" if match["single"] is not None else '"'
        strings.append(body if match["raw"] else _unescape(body, quote))
        return f"'bayou string {len(strings) - 1}'"

    return _QUOTED.sub(lift, text)


_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<one>.))"
    r"|(?P<twice>''|\"\")",
    re.DOTALL,
)
_ONE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unescape(body: str, quote: str) -> str:
    def value(match: re.Match[str]) -> str:
        if code := match["short"] or match["long"]:
            return chr(int(code, 16))
        if octal := match["octal"]:
            return chr(int(octal, 8))
        if twice := match["twice"]:
            return quote if twice == quote * 2 else twice
        return _ONE.get(match["one"], match["one"])

    text = _ESCAPE.sub(value, body)
    # \uXXXX escapes may have spelled a character beyond 16 bits as two.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Translator:
    """From sqlglot's tree; each handler gets a node of the kind it is registered for."""

    def __init__(self, text: str, strings: list[str]) -> None:
        self._text = text
        self._strings = strings
        self._predicates: dict[str, Callable[[Any], Predicate]] = {
            "And": lambda n: And(tuple(map(self.predicate, _flatten(n)))),
            "Or": lambda n: Or(tuple(map(self.predicate, _flatten(n)))),
            "Not": lambda n: Not(self.predicate(n.this)),
            "Paren": lambda n: self.predicate(n.this),
            "EQ": lambda n: self._comparison("=", n),
            "NEQ": lambda n: self._comparison("<>", n),
            "LT": lambda n: self._comparison("<", n),
            "LTE": lambda n: self._comparison("<=", n),
            "GT": lambda n: self._comparison(">", n),
            "GTE": lambda n: self._comparison(">=", n),
            "NullSafeEQ": lambda n: self._comparison("<=>", n),
            "NullSafeNEQ": lambda n: Not(self._comparison("<=>", n)),
            "Is": self._is,
            "In": self._in,
            "Between": self._between,
            "Like": self._like,
            "StartsWith": self._starts_with,
            "IsNan": self._is_nan,
            "Anonymous": self._function,
            "Column": self._column,
            "Dot": self._column,
            "Boolean": lambda n: Literal(bool(n.this), BOOLEAN),
            "Null": self._constant,
            "Cast": self._constant,
            "TryCast": self._constant,
        }

    def predicate(self, node: Any) -> Predicate:
        handler = self._predicates.get(type(node).__name__)
        if handler is None or not self._is_plain(node):
            raise self._unsupported(node)
        found = handler(node)
        return Not(found) if node.args.get("negate") else found

    def _is_plain(self, node: Any) -> bool:
        """Whether the node says nothing but what its handler looks at."""
        known = _PARTS.get(type(node).__name__, _OPERANDS)
        return all(part in known for part, value in node.args.items() if value)

    def _value(self, node: Any) -> Expression:
        match type(node).__name__:
            case "Paren":
                return self._value(node.this)
            case "Literal" | "Neg" | "HexString":
                return self._constant(node)
            case _:
                return self.predicate(node)

    def _comparison(self, op: str, node: Any) -> Comparison:
        return Comparison(op, self._value(node.this), self._value(node.expression))

    def _is(self, node: Any) -> Predicate:
        operand = self._value(node.this)
        match type(node.expression).__name__:
            case "Null":
                return IsNull(operand)
            case "Boolean":
                return Comparison("<=>", operand, Literal(bool(node.expression.this), BOOLEAN))
            case _:
                raise self._unsupported(node)

    def _in(self, node: Any) -> Predicate:
        if not node.expressions:
            raise self._unsupported(node)
        operand = self._value(node.this)
        values = tuple(self._value(value) for value in node.expressions)
        literals = tuple(value for value in values if isinstance(value, Literal))
        if len(literals) == len(values):
            return In(operand, literals)
        checks: tuple[Predicate, ...] = tuple(Comparison("=", operand, v) for v in values)
        return checks[0] if len(checks) == 1 else Or(checks)

    def _between(self, node: Any) -> Predicate:
        operand = self._value(node.this)
        return And(
            (
                Comparison(">=", operand, self._value(node.args["low"])),
                Comparison("<=", operand, self._value(node.args["high"])),
            )
        )

    def _like(self, node: Any) -> Predicate:
        pattern = self._value(node.expression)
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise self._unsupported(node)
        found = _LIKE.fullmatch(pattern.value)
        if found is None:
            raise self._unsupported(node)
        text = re.sub(r"\\(.)", r"\1", found["text"], flags=re.DOTALL)
        operand = self._value(node.this)
        if found["rest"]:
            return StartsWith(operand, text)
        return Comparison("=", operand, Literal(text, STRING))

    def _starts_with(self, node: Any) -> Predicate:
        prefix = self._value(node.expression)
        if not isinstance(prefix, Literal) or not isinstance(prefix.value, str):
            raise self._unsupported(node)
        return StartsWith(self._value(node.this), prefix.value)

    def _function(self, node: Any) -> Predicate:
        name = node.name.lower()
        if name not in ("isnull", "isnotnull") or len(node.expressions) != 1:
            raise self._unsupported(node)
        missing = IsNull(self._value(node.expressions[0]))
        return missing if name == "isnull" else Not(missing)

    def _is_nan(self, node: Any) -> Predicate:
        # isnan(NULL) is false, so that NOT isnan(x) holds for NULL.
        operand = self._value(node.this)
        nan = Comparison("=", operand, Literal(float("nan"), DOUBLE))
        return And((nan, Not(IsNull(operand))))

    def _column(self, node: Any) -> Column:
        if type(node).__name__ == "Dot":
            parent = self._column(node.this)
            if type(node.expression).__name__ != "Identifier":
                raise self._unsupported(node)
            return Column((*parent.path, node.expression.name))
        if type(node).__name__ != "Column" or type(node.this).__name__ != "Identifier":
            raise self._unsupported(node)
        return Column(tuple(part.name for part in node.parts))

    def _constant(self, node: Any) -> Literal:
        if not self._is_plain(node):
            raise self._unsupported(node)
        match type(node).__name__:
            case "Null":
                return Literal(None)
            case "Boolean":
                return Literal(bool(node.this), BOOLEAN)
            case "Paren":
                return self._constant(node.this)
            case "Literal" if node.is_string:
                return Literal(self._string(node.this))
            case "Literal":
                return _number(node.this)
            case "HexString":
                digits = str(node.this)
                return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"))
            case "Neg":
                return self._negated(node)
            case "Cast" | "TryCast":
                return self._cast(node)
            case _:
                raise self._unsupported(node)

    def _string(self, text: str) -> str:
        lifted = _LIFTED.fullmatch(text)
        return text if lifted is None else self._strings[int(lifted[1])]

    def _inner_constant(self, node: Any) -> Literal:
        """The constant that a sign or cast stands before."""
        if type(node.this).__name__ not in _CONSTANTS:
            raise self._unsupported(node)
        return self._constant(node.this)

    def _negated(self, node: Any) -> Literal:
        number = self._inner_constant(node)
        if isinstance(number.value, bool) or not isinstance(number.value, int | float | Decimal):
            raise self._unsupported(node)
        if isinstance(number.value, Decimal):  # the operator - would round to 28 digits
            return Literal(number.value.copy_negate(), number.data_type)
        return Literal(-number.value, None if isinstance(number.value, int) else number.data_type)

    def _cast(self, node: Any) -> Literal:
        constant = self._inner_constant(node)
        target = _TYPES.get(node.to.this.name)
        if node.to.this.name == "DECIMAL":
            sizes = [int(part.this.this) for part in node.to.expressions] or [10, 0]
            target = DecimalType(sizes[0], sizes[1] if len(sizes) > 1 else 0)
        if target is None:
            raise self._unsupported(node)
        try:
            return Literal(_converted(constant.value, target), target)
        except (ValueError, TypeError, OverflowError, InvalidOperation) as error:
            raise PredicateError(
                f"{constant.value!r} in {self._text!r} isn't a {target}.",
                expression=str(constant.value),
            ) from error

    def _unsupported(self, node: Any) -> PredicateError:
        part = _LIFTED.sub(
            lambda match: self._strings[int(match[1])].replace("'", "''"),
            node.sql(dialect="spark"),
        )
        return PredicateError(
            f"{part!r} in the filter {self._text!r} isn't supported. {_SUPPORTED}",
            expression=part,
        )


_CONSTANTS = frozenset(
    {"Boolean", "Cast", "HexString", "Literal", "Neg", "Null", "Paren", "TryCast"}
)
_OPERANDS = frozenset({"this", "expression", "negate"})
_PARTS = {
    "Anonymous": frozenset({"this", "expressions"}),
    "Between": frozenset({"this", "low", "high", "negate"}),
    "Cast": frozenset({"this", "to", "safe"}),
    "TryCast": frozenset({"this", "to", "safe"}),
    "Column": frozenset({"this", "table", "db", "catalog"}),
    "In": frozenset({"this", "expressions", "negate"}),
    "Literal": frozenset({"this", "is_string"}),
}

_LIKE = re.compile(r"(?P<text>(?:[^%_\\]|\\[%_\\])*)(?P<rest>%*)", re.DOTALL)

_TYPES: dict[str, DataType] = {
    "TINYINT": BYTE,
    "SMALLINT": SHORT,
    "INT": INTEGER,
    "BIGINT": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
    "TEXT": STRING,
    "VARCHAR": STRING,
}
_DECIMAL_CONTEXT = Context(prec=76)
_BITS = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}


def _flatten(node: Any) -> list[Any]:
    """Operands of a chain of ANDs or ORs, however long, without recursion."""
    operands: list[Any] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if type(current) is type(node):
            pending += (current.expression, current.this)
        else:
            operands.append(current)
    return operands


def _number(text: str) -> Literal:
    """A bare number: integer, decimal with a point, double with an exponent."""
    if re.fullmatch(r"[0-9]+", text):
        return Literal(int(text))
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    return literal_of(Decimal(text))


def _converted(value: LiteralValue, target: DataType) -> LiteralValue:
    """A constant's value after a cast."""
    if value is None:
        return None
    if isinstance(target, DecimalType):
        return _to_decimal(value, target)
    if target in _BITS:
        number = int(value) if isinstance(value, str | int) else int(_finite(value))
        if not -(1 << (_BITS[target] - 1)) <= number < 1 << (_BITS[target] - 1):
            raise OverflowError
        return number
    if target in (FLOAT, DOUBLE) and isinstance(value, str | int | float | Decimal):
        return float(value)
    if target == BOOLEAN and isinstance(value, bool):
        return value
    if target == STRING and isinstance(value, str):
        return value
    if target in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return _to_time(value, target)
    raise TypeError


def _finite(value: LiteralValue) -> float | Decimal:
    if not isinstance(value, float | Decimal):
        raise TypeError
    return value


def _to_decimal(value: LiteralValue, target: DecimalType) -> Decimal:
    if not isinstance(value, str | int | float | Decimal):
        raise TypeError
    number = Decimal(str(value)).quantize(
        Decimal(1).scaleb(-target.scale), rounding=ROUND_HALF_UP, context=_DECIMAL_CONTEXT
    )
    if number and number.adjusted() >= target.precision - target.scale:
        raise OverflowError
    return number


def _to_time(value: LiteralValue, target: DataType) -> dt.date | dt.datetime:
    if isinstance(value, str):
        moment = parse_timestamp(value)
    elif isinstance(value, dt.datetime):
        moment = value
    elif isinstance(value, dt.date):
        moment = dt.datetime.combine(value, dt.time())
    else:
        raise TypeError
    if target == DATE:
        return moment.date()
    if target == TIMESTAMP_NTZ:
        return moment.replace(tzinfo=None)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=dt.UTC)
    return moment.astimezone(dt.UTC)
