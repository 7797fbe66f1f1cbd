"""From sqlglot's tree to expressions.

Bitwise operators by Spark's precedence; the parser has one level for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from bayou.errors import PredicateError
from bayou.kernel.expressions.functions import Macro, find
from bayou.kernel.expressions.model import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    call,
)
from bayou.kernel.expressions.sql.constants import (
    STAND_IN,
    cast_constant,
    interval,
    number,
    sql_type,
)
from bayou.protocol.schema import BOOLEAN, LONG, STRING

__all__ = ["BITWISE", "Translator", "bitwise"]


BITWISE = {
    "BitwiseOr": ("|", 0),
    "BitwiseXor": ("^", 1),
    "BitwiseAnd": ("&", 2),
    "BitwiseLeftShift": ("shiftleft", 3),
    "BitwiseRightShift": ("shiftright", 3),
}
"""Functions by the parser's names, and how tightly they bind."""


def bitwise(operands: Sequence[Expression], kinds: Sequence[str]) -> Expression:
    """The expression of a chain without parentheses.

    Args:
        operands: from left to right.
        kinds: names out of `BITWISE` between them, one less.
    """
    done = [operands[0]]
    pending: list[str] = []

    def apply_down_to(level: int) -> None:
        while pending and BITWISE[pending[-1]][1] >= level:
            right, left = done.pop(), done.pop()
            done.append(call(BITWISE[pending.pop()][0], left, right))

    for kind, operand in zip(kinds, operands[1:], strict=True):
        apply_down_to(BITWISE[kind][1])
        pending.append(kind)
        done.append(operand)
    apply_down_to(0)
    return done[0]


_SUPPORTED = "docs/reference/expressions.md lists the conditions, operators and functions that are."


class Translator:
    """Translates one text; each handler gets a node of the kind it is registered for."""

    def __init__(self, text: str, strings: list[str]) -> None:
        self._text = text
        self._strings = strings
        self._handlers: dict[str, Callable[[Any], Expression]] = {
            "And": lambda n: And(tuple(map(self._predicate, _flatten(n)))),
            "Or": lambda n: Or(tuple(map(self._predicate, _flatten(n)))),
            "Not": lambda n: Not(self._predicate(n.this)),
            "Paren": lambda n: self.expression(n.this),
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
            "ILike": self._like,
            "Escape": self._like,
            "RegexpLike": lambda n: call("rlike", *self._operands(n)),
            "Add": lambda n: self._sum("+", n),
            "Sub": lambda n: self._sum("-", n),
            "Mul": lambda n: call("*", *self._operands(n)),
            "Div": lambda n: call("/", *self._operands(n)),
            "IntDiv": lambda n: call("div", *self._operands(n)),
            "Mod": lambda n: call("%", *self._operands(n)),
            "BitwiseNot": lambda n: call("~", self.expression(n.this)),
            **dict.fromkeys(BITWISE, self._bitwise),
            "Chr": lambda n: self._called(n, "chr", n.expressions),
            "Initcap": lambda n: self._called(n, "initcap", [n.this]),
            "StrPosition": lambda n: self._called(
                n, "locate", _given(n, "substr", "this", "position")
            ),
            "DPipe": self._joined,
            "Neg": self._negated,
            "Case": self._case,
            "If": self._if,
            "Bracket": self._element,
            "Anonymous": lambda n: self._called(n, n.name, n.expressions),
            "Substring": lambda n: self._called(
                n, "substring", _given(n, "this", "start", "length")
            ),
            "Trim": self._trim,
            "Ceil": lambda n: self._called(n, "ceil", [n.this]),
            "Floor": lambda n: self._called(n, "floor", [n.this]),
            "Extract": self._extract,
            "Column": self._column,
            "Dot": self._column,
            "Literal": self._literal,
            "HexString": self._hex,
            "Boolean": lambda n: Literal(bool(n.this), BOOLEAN),
            "Null": lambda _: Literal(None),
            "Cast": self._cast,
            "TryCast": self._cast,
        }

    def expression(self, node: Any) -> Expression:
        """The expression of a node.

        Raises:
            PredicateError: a part that isn't supported; names it.
        """
        handler = self._handlers.get(type(node).__name__)
        if handler is None or not _is_plain(node):
            raise self._unsupported(node)
        found = handler(node)
        if not node.args.get("negate"):
            return found
        assert isinstance(found, Predicate)  # every kind of expression may be a condition
        return Not(found)

    def _predicate(self, node: Any) -> Predicate:
        found = self.expression(node)
        assert isinstance(found, Predicate)  # every kind of expression may be a condition
        return found

    def _operands(self, node: Any) -> tuple[Expression, Expression]:
        return self.expression(node.this), self.expression(node.expression)

    def _comparison(self, op: str, node: Any) -> Comparison:
        return Comparison(op, *self._operands(node))

    def _is(self, node: Any) -> Predicate:
        operand = self.expression(node.this)
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
        operand = self.expression(node.this)
        values = tuple(self.expression(value) for value in node.expressions)
        literals = tuple(value for value in values if isinstance(value, Literal))
        if len(literals) == len(values):
            return In(operand, literals)
        checks: tuple[Predicate, ...] = tuple(Comparison("=", operand, v) for v in values)
        return checks[0] if len(checks) == 1 else Or(checks)

    def _between(self, node: Any) -> Predicate:
        operand = self.expression(node.this)
        return And(
            (
                Comparison(">=", operand, self.expression(node.args["low"])),
                Comparison("<=", operand, self.expression(node.args["high"])),
            )
        )

    def _like(self, node: Any) -> Predicate:
        escape = "\\"
        if type(node).__name__ == "Escape":
            escape = self._constant_text(node, node.expression)
            node = node.this
            if len(escape) != 1 or type(node).__name__ not in ("Like", "ILike"):
                raise self._unsupported(node)
        if type(node.expression).__name__ in ("Any", "All"):
            chosen = type(node.expression).__name__
            found = tuple(
                self._matched(node, pattern, escape) for pattern in node.expression.this.expressions
            )
            if len(found) == 1:
                return found[0]
            return Or(found) if chosen == "Any" else And(found)
        return self._matched(node, node.expression, escape)

    def _matched(self, node: Any, pattern: Any, escape: str) -> Predicate:
        text = self._constant_text(node, pattern)
        operand = self.expression(node.this)
        if type(node).__name__ == "ILike":
            return Like(call("lower", operand), text.lower(), escape)
        plain = _PLAIN_PATTERN.fullmatch(text) if escape == "\\" else None
        if plain is None:
            return Like(operand, text, escape)
        start = re.sub(r"\\(.)", r"\1", plain["text"], flags=re.DOTALL)
        if plain["rest"]:
            return StartsWith(operand, start)
        return Comparison("=", operand, Literal(start, STRING))

    def _constant_text(self, node: Any, given: Any) -> str:
        found = self.expression(given)
        if not isinstance(found, Literal) or not isinstance(found.value, str):
            raise self._unsupported(node)
        return found.value

    def _sum(self, sign: str, node: Any) -> Expression:
        left, right = node.this, node.expression
        if type(left).__name__ == "Interval" and sign == "+":
            left, right = right, left
        if type(right).__name__ != "Interval":
            return call(sign, *self._operands(node))
        found = interval(right, self._string)
        if found is None:
            raise self._unsupported(node)
        factor = 1 if sign == "+" else -1
        amounts = (Literal(factor * amount, LONG) for amount in found)
        return call("add_interval", self.expression(left), *amounts)

    def _joined(self, node: Any) -> Expression:
        operands = _flatten(node)
        if any(type(operand).__name__ in BITWISE for operand in operands):
            raise self._unsupported(node)  # Spark joins first, the parser reads left to right
        return call("concat", *map(self.expression, operands))

    def _bitwise(self, node: Any) -> Expression:
        """A chain of bitwise operators, which the parser reads from left to right."""
        chain: list[tuple[str, Any]] = []
        while type(node).__name__ in BITWISE and _is_plain(node):
            chain.append((type(node).__name__, node.expression))
            node = node.this
        chain.reverse()
        operands = [self.expression(node), *(self.expression(operand) for _, operand in chain)]
        return bitwise(operands, [kind for kind, _ in chain])

    def _negated(self, node: Any) -> Expression:
        inner = node.this
        if type(inner).__name__ == "TryCast" and type(inner.this).__name__ == "Literal":
            target = sql_type(inner.to)
            operand = self.expression(inner.this)
            if isinstance(operand, Literal) and target is not None and not inner.this.is_string:
                return cast_constant(_with_other_sign(operand), target)  # -128Y
        operand = self.expression(inner)
        value = operand.value if isinstance(operand, Literal) else None
        if not isinstance(operand, Literal) or isinstance(value, bool):
            return call("negative", operand)
        if isinstance(value, Decimal | float | int) and not value < 0:
            return _with_other_sign(operand)
        return call("negative", operand)

    def _case(self, node: Any) -> Expression:
        parts: list[Expression] = []
        for branch in node.args["ifs"]:
            condition = self.expression(branch.this)
            if node.this is not None:
                condition = Comparison("=", self.expression(node.this), condition)
            parts += (condition, self.expression(branch.args["true"]))
        if node.args.get("default") is not None:
            parts.append(self.expression(node.args["default"]))
        return call("case", *parts)

    def _if(self, node: Any) -> Expression:
        otherwise = node.args.get("false")
        return call(
            "case",
            self.expression(node.this),
            self.expression(node.args["true"]),
            *([] if otherwise is None else [self.expression(otherwise)]),
        )

    def _element(self, node: Any) -> Expression:
        if len(node.expressions) != 1:
            raise self._unsupported(node)
        return call("[]", self.expression(node.this), self.expression(node.expressions[0]))

    def _trim(self, node: Any) -> Expression:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
            node.args.get("position") or "", "trim"
        )
        return self._called(node, name, _given(node, "expression", "this"))

    def _extract(self, node: Any) -> Expression:
        unit = {"dow": "dayofweek", "doy": "dayofyear", "week": "weekofyear"}
        name = node.this.name.lower()
        return self._called(node, unit.get(name, name), [node.expression])

    def _called(self, node: Any, name: str, given: list[Any]) -> Expression:
        definition = find(name)
        arguments = tuple(self.expression(argument) for argument in given)
        if not isinstance(definition, Macro):
            if definition.name == "startswith" and len(arguments) == 2:
                prefix = arguments[1]
                if isinstance(prefix, Literal) and isinstance(prefix.value, str):
                    return StartsWith(arguments[0], prefix.value)
            return Function(definition.name, arguments)
        least, most = definition.count
        if not least <= len(arguments) <= most:
            raise self._unsupported(node)
        found = definition.expand(*arguments)
        if isinstance(found, Cast) and isinstance(found.operand, Literal):
            return cast_constant(found.operand, found.data_type)
        return found

    def _column(self, node: Any) -> Expression:
        if type(node).__name__ == "Dot":
            parent = self.expression(node.this)
            if type(node.expression).__name__ != "Identifier":
                raise self._unsupported(node)
            name = node.expression.name
            if isinstance(parent, Column):
                return Column((*parent.path, name))
            return call(".", parent, Literal(name, STRING))
        if type(node.this).__name__ != "Identifier":
            raise self._unsupported(node)
        return Column(tuple(part.name for part in node.parts))

    def _literal(self, node: Any) -> Literal:
        return Literal(self._string(node.this)) if node.is_string else number(node.this)

    def _hex(self, node: Any) -> Literal:
        digits = str(node.this)
        return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"))

    def _string(self, text: str) -> str:
        lifted = STAND_IN.fullmatch(text)
        return text if lifted is None else self._strings[int(lifted[1])]

    def _cast(self, node: Any) -> Expression:
        target = sql_type(node.to)
        if target is None:
            raise self._unsupported(node)
        operand = self.expression(node.this)
        if isinstance(operand, Literal) and not node.args.get("safe"):
            return cast_constant(operand, target)
        return Cast(operand, target, bool(node.args.get("safe")))

    def _unsupported(self, node: Any) -> PredicateError:
        part = STAND_IN.sub(
            lambda match: self._strings[int(match[1])].replace("'", "''"),
            node.sql(dialect="spark"),
        )
        return PredicateError(
            f"{part!r} in the expression {self._text!r} isn't supported. {_SUPPORTED}",
            expression=part,
        )


_OPERANDS = frozenset({"this", "expression", "negate"})
_PARTS = {
    "Anonymous": frozenset({"this", "expressions"}),
    "Between": frozenset({"this", "low", "high", "negate"}),
    "Bracket": frozenset({"this", "expressions"}),
    "Case": frozenset({"this", "ifs", "default"}),
    "Cast": frozenset({"this", "to", "safe"}),
    "TryCast": frozenset({"this", "to", "safe"}),
    "Column": frozenset({"this", "table", "db", "catalog"}),
    "Div": frozenset({"this", "expression", "typed", "safe"}),
    "Chr": frozenset({"expressions"}),
    "DPipe": frozenset({"this", "expression", "safe"}),
    "If": frozenset({"this", "true", "false"}),
    "In": frozenset({"this", "expressions", "negate"}),
    "Literal": frozenset({"this", "is_string"}),
    "StrPosition": frozenset({"this", "substr", "position"}),
    "Substring": frozenset({"this", "start", "length"}),
    "Trim": frozenset({"this", "position", "expression"}),
}

_PLAIN_PATTERN = re.compile(r"(?P<text>(?:[^%_\\]|\\[%_\\])*)(?P<rest>%*)", re.DOTALL)


def _with_other_sign(number: Literal) -> Literal:
    match number.value:
        case Decimal():  # the operator - would round to 28 digits
            return Literal(number.value.copy_negate(), number.data_type)
        case float():
            return Literal(-number.value, number.data_type)
        case int():
            return Literal(-number.value, None)
        case _:
            return number


def _is_plain(node: Any) -> bool:
    """Whether the node says nothing but what its handler looks at."""
    known = _PARTS.get(type(node).__name__, _OPERANDS)
    return all(part in known for part, value in node.args.items() if value)


def _given(node: Any, *parts: str) -> list[Any]:
    return [node.args[part] for part in parts if node.args.get(part) is not None]


def _flatten(node: Any) -> list[Any]:
    """Operands of a chain of ANDs, ORs or ||, however long, without recursion."""
    operands: list[Any] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if type(current) is type(node):
            pending += (current.expression, current.this)
        else:
            operands.append(current)
    return operands
