"""Translation of sqlglot's syntax tree to expressions.

Bitwise operators are rearranged by Spark's precedence, because sqlglot treats them alike.
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
    PLACEHOLDER,
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
"""The function and the precedence of each bitwise operator, by sqlglot's class name."""


def bitwise(operands: Sequence[Expression], kinds: Sequence[str]) -> Expression:
    """The expression of a chain of bitwise operators without parentheses.

    Args:
        operands: the operands from left to right.
        kinds: the operators between them: keys of `BITWISE`.
    """
    stack = [operands[0]]
    pending: list[str] = []

    def apply_down_to(level: int) -> None:
        while pending and BITWISE[pending[-1]][1] >= level:
            right, left = stack.pop(), stack.pop()
            stack.append(call(BITWISE[pending.pop()][0], left, right))

    for kind, operand in zip(kinds, operands[1:], strict=True):
        apply_down_to(BITWISE[kind][1])
        pending.append(kind)
        stack.append(operand)
    apply_down_to(0)
    return stack[0]


_SUPPORTED = "See docs/reference/expressions.md for the supported conditions and functions."


class Translator:
    """Translates the nodes of one SQL expression, with a handler for each class of nodes."""

    def __init__(self, sql: str, strings: list[str]) -> None:
        self._sql = sql
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
                n, "locate", _arguments(n, "substr", "this", "position")
            ),
            "DPipe": self._joined,
            "Neg": self._negated,
            "Case": self._case,
            "If": self._if,
            "Bracket": self._element,
            "Anonymous": lambda n: self._called(n, n.name, n.expressions),
            "Substring": lambda n: self._called(
                n, "substring", _arguments(n, "this", "start", "length")
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
            PredicateError: a part isn't supported. The message names it.
        """
        handler = self._handlers.get(type(node).__name__)
        if handler is None or not _is_plain(node):
            raise self._unsupported(node)
        expression = handler(node)
        if not node.args.get("negate"):
            return expression
        assert isinstance(expression, Predicate)  # handlers return only subclasses of Predicate
        return Not(expression)

    def _predicate(self, node: Any) -> Predicate:
        expression = self.expression(node)
        assert isinstance(expression, Predicate)  # handlers return only subclasses of Predicate
        return expression

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
            escape = self._constant_string(node, node.expression)
            node = node.this
            if len(escape) != 1 or type(node).__name__ not in ("Like", "ILike"):
                raise self._unsupported(node)
        if type(node.expression).__name__ in ("Any", "All"):
            quantifier = type(node.expression).__name__
            predicates = tuple(
                self._like_pattern(node, pattern, escape)
                for pattern in node.expression.this.expressions
            )
            if len(predicates) == 1:
                return predicates[0]
            return Or(predicates) if quantifier == "Any" else And(predicates)
        return self._like_pattern(node, node.expression, escape)

    def _like_pattern(self, node: Any, pattern_node: Any, escape: str) -> Predicate:
        pattern = self._constant_string(node, pattern_node)
        operand = self.expression(node.this)
        if type(node).__name__ == "ILike":
            return Like(call("lower", operand), pattern.lower(), escape)
        plain = _PLAIN_PATTERN.fullmatch(pattern) if escape == "\\" else None
        if plain is None:
            return Like(operand, pattern, escape)
        prefix = re.sub(r"\\(.)", r"\1", plain["text"], flags=re.DOTALL)
        if plain["rest"]:
            return StartsWith(operand, prefix)
        return Comparison("=", operand, Literal(prefix, STRING))

    def _constant_string(self, node: Any, value_node: Any) -> str:
        literal = self.expression(value_node)
        if not isinstance(literal, Literal) or not isinstance(literal.value, str):
            raise self._unsupported(node)
        return literal.value

    def _sum(self, sign: str, node: Any) -> Expression:
        left, right = node.this, node.expression
        if type(left).__name__ == "Interval" and sign == "+":
            left, right = right, left
        if type(right).__name__ != "Interval":
            return call(sign, *self._operands(node))
        amounts = interval(right, self._string)
        if amounts is None:
            raise self._unsupported(node)
        factor = 1 if sign == "+" else -1
        literals = (Literal(factor * amount, LONG) for amount in amounts)
        return call("add_interval", self.expression(left), *literals)

    def _joined(self, node: Any) -> Expression:
        operands = _flatten(node)
        if any(type(operand).__name__ in BITWISE for operand in operands):
            raise self._unsupported(node)  # in Spark, || has a higher precedence than in sqlglot
        return call("concat", *map(self.expression, operands))

    def _bitwise(self, node: Any) -> Expression:
        """A chain of bitwise operators, which sqlglot parses from left to right."""
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
                return cast_constant(_negated_literal(operand), target)  # -128Y
        operand = self.expression(inner)
        value = operand.value if isinstance(operand, Literal) else None
        if not isinstance(operand, Literal) or isinstance(value, bool):
            return call("negative", operand)
        if isinstance(value, Decimal | float | int) and not value < 0:
            return _negated_literal(operand)
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
        return self._called(node, name, _arguments(node, "expression", "this"))

    def _extract(self, node: Any) -> Expression:
        unit = {"dow": "dayofweek", "doy": "dayofyear", "week": "weekofyear"}
        name = node.this.name.lower()
        return self._called(node, unit.get(name, name), [node.expression])

    def _called(self, node: Any, name: str, argument_nodes: list[Any]) -> Expression:
        definition = find(name)
        arguments = tuple(self.expression(argument) for argument in argument_nodes)
        if not isinstance(definition, Macro):
            if definition.name == "startswith" and len(arguments) == 2:
                prefix = arguments[1]
                if isinstance(prefix, Literal) and isinstance(prefix.value, str):
                    return StartsWith(arguments[0], prefix.value)
            return Function(definition.name, arguments)
        minimum, maximum = definition.count
        if not minimum <= len(arguments) <= maximum:
            raise self._unsupported(node)
        expression = definition.expand(*arguments)
        if isinstance(expression, Cast) and isinstance(expression.operand, Literal):
            return cast_constant(expression.operand, expression.data_type)
        return expression

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

    def _string(self, string: str) -> str:
        placeholder = PLACEHOLDER.fullmatch(string)
        return string if placeholder is None else self._strings[int(placeholder[1])]

    def _cast(self, node: Any) -> Expression:
        target = sql_type(node.to)
        if target is None:
            raise self._unsupported(node)
        operand = self.expression(node.this)
        if isinstance(operand, Literal) and not node.args.get("safe"):
            return cast_constant(operand, target)
        return Cast(operand, target, bool(node.args.get("safe")))

    def _unsupported(self, node: Any) -> PredicateError:
        part = PLACEHOLDER.sub(
            lambda match: self._strings[int(match[1])].replace("'", "''"),
            node.sql(dialect="spark"),
        )
        return PredicateError(
            f"The expression {self._sql!r}: {part!r} isn't supported. {_SUPPORTED}",
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


def _negated_literal(number: Literal) -> Literal:
    match number.value:
        case Decimal():  # the operator - rounds to 28 digits
            return Literal(number.value.copy_negate(), number.data_type)
        case float():
            return Literal(-number.value, number.data_type)
        case int():
            return Literal(-number.value, None)
        case _:
            return number


def _is_plain(node: Any) -> bool:
    """Whether the node has only arguments that its handler supports."""
    supported = _PARTS.get(type(node).__name__, _OPERANDS)
    return all(part in supported for part, value in node.args.items() if value)


def _arguments(node: Any, *parts: str) -> list[Any]:
    return [node.args[part] for part in parts if node.args.get(part) is not None]


def _flatten(node: Any) -> list[Any]:
    """The operands of a chain of AND, OR or ||, without recursion."""
    operands: list[Any] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if type(current) is type(node):
            pending += (current.expression, current.this)
        else:
            operands.append(current)
    return operands
