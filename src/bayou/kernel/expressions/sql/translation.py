"""Translation of sqlglot's syntax tree to expressions.

sqlglot gives all bitwise operators the same precedence. This module regroups their operands as
Spark does.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from sqlglot import exp

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
    InExpressions,
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
    cast_constant,
    interval,
    number,
    sql_type,
)
from bayou.kernel.expressions.sql.syntax_tree import parse_tree
from bayou.protocol.schema import BOOLEAN, LONG, STRING


def translate(sql: str) -> Expression:
    """Parse an SQL expression with sqlglot, and translate sqlglot's tree to an `Expression`."""
    try:
        return _Translator(sql).expression(parse_tree(sql))
    except RecursionError:
        raise _too_deep(sql) from None


def translate_conjuncts(sql: str) -> list[Predicate]:
    """Parse the operands of AND in a condition, and skip the operands that aren't supported."""
    conjuncts: list[Predicate] = []
    try:
        operands = list(_operands_of_and(parse_tree(sql)))
    except (PredicateError, RecursionError):
        return []
    for operand in operands:
        with contextlib.suppress(PredicateError, RecursionError):
            conjuncts.append(_Translator(sql).predicate(operand))
    return conjuncts


def _operands_of_and(tree: exp.Expr) -> Iterator[exp.Expr]:
    match tree:
        case exp.And():
            for operand in _flatten(tree):
                yield from _operands_of_and(operand)
        case exp.Paren() if not tree.args.get("negate"):
            yield from _operands_of_and(tree.this)
        case _:
            yield tree


def _too_deep(sql: str) -> PredicateError:
    return PredicateError(
        f"The expression that starts with {sql[:60]!r} is nested too deeply. Reduce its nesting.",
        expression=sql[:60],
    )


_BITWISE: dict[type[exp.Expr], tuple[str, int]] = {
    exp.BitwiseOr: ("|", 0),
    exp.BitwiseXor: ("^", 1),
    exp.BitwiseAnd: ("&", 2),
    exp.BitwiseLeftShift: ("shiftleft", 3),
    exp.BitwiseRightShift: ("shiftright", 3),
}
"""The function and the precedence of each bitwise operator."""


def _bitwise(operands: Sequence[Expression], operators: Sequence[tuple[str, int]]) -> Expression:
    """Group the operands of a chain such as `a | b & c` by Spark's precedence.

    Args:
        operators: the function name and the precedence of each operator.
    """
    stack = [operands[0]]
    pending: list[tuple[str, int]] = []

    def apply_down_to(level: int) -> None:
        while pending and pending[-1][1] >= level:
            right, left = stack.pop(), stack.pop()
            stack.append(call(pending.pop()[0], left, right))

    for operator, operand in zip(operators, operands[1:], strict=True):
        apply_down_to(operator[1])
        pending.append(operator)
        stack.append(operand)
    apply_down_to(0)
    return stack[0]


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_LOWER_THAN_COMPARISONS = frozenset(
    {
        *_COMPARISONS,
        exp.NullSafeNEQ,
        exp.Between,
        exp.Escape,
        exp.ILike,
        exp.In,
        exp.Like,
        exp.Not,
        exp.RegexpLike,
    }
)
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
}
_EXTRACTED = {"dow": "dayofweek", "doy": "dayofyear", "week": "weekofyear"}
_SUPPORTED = (
    "The page Expressions of the documentation lists the supported conditions and functions."
)


class _Translator:
    def __init__(self, sql: str) -> None:
        self._sql = sql

    def expression(self, node: exp.Expr) -> Expression:
        """Translate a node of sqlglot's tree.

        sqlglot represents conditions such as NOT IN by a node with the argument `negate`. The
        result for this node is a `Not`.
        """
        if not _is_plain(node):
            raise self._unsupported(node)
        expression = self._expression(node)
        if not node.args.get("negate") or isinstance(node, exp.Like | exp.ILike):
            return expression
        assert isinstance(expression, Predicate)  # only conditions have `negate`
        return Not(expression)

    def predicate(self, node: exp.Expr) -> Predicate:
        """Translate a node that is a condition."""
        expression = self.expression(node)
        assert isinstance(expression, Predicate)  # all classes here are subclasses of Predicate
        return expression

    def _expression(self, node: exp.Expr) -> Expression:
        """Translate a node, and ignore its argument `negate`, which the caller applies.

        Nodes for LIKE and ILIKE are an exception: `negate` is applied here.
        """
        match node:
            case exp.And():
                return And(tuple(map(self.predicate, _flatten(node))))
            case exp.Or():
                return Or(tuple(map(self.predicate, _flatten(node))))
            case exp.Not():
                return Not(self.predicate(node.this))
            case exp.Paren():
                return self.expression(node.this)
            case exp.NullSafeNEQ():
                return Not(Comparison("<=>", *self._compared(node)))
            case exp.Is():
                return self._is(node)
            case exp.In():
                return self._in(node)
            case exp.Between():
                return self._between(node)
            case exp.Like() | exp.ILike() | exp.Escape():
                return self._like(node)
            case exp.Add() | exp.Sub():
                return self._sum(node)
            case exp.BitwiseNot():
                return call("~", self.expression(node.this))
            case exp.DPipe():
                return self._concatenation(node)
            case exp.Neg():
                return self._negated(node)
            case exp.Case():
                return self._case(node)
            case exp.If():
                return self._if(node)
            case exp.Bracket(expressions=[key]):
                return call("[]", self.expression(node.this), self.expression(key))
            case exp.Column() | exp.Dot():
                return self._column(node)
            case exp.Literal():
                return Literal(node.name) if node.is_string else number(node.name)
            case exp.HexString():
                digits = node.name
                return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"))
            case exp.Boolean():
                return Literal(bool(node.this), BOOLEAN)
            case exp.Null():
                return Literal(None)
            case exp.Cast():
                return self._cast(node)
            case exp.Func():
                return self._function(node)
            case exp.Binary() if type(node) in _COMPARISONS:
                return Comparison(_COMPARISONS[type(node)], *self._compared(node))
            case exp.Binary() if type(node) in _ARITHMETIC:
                return call(_ARITHMETIC[type(node)], *self._operands(node))
            case exp.Binary() if type(node) in _BITWISE:
                return self._bitwise(node)
            case _:
                raise self._unsupported(node)

    def _function(self, node: exp.Func) -> Expression:
        """Translate a function call, which may have a special syntax such as `trim(c FROM s)`."""
        match node:
            case exp.RegexpLike():
                return call("rlike", *self._operands(node))
            case exp.Anonymous():
                return self._called(node, node.name, node.expressions)
            case exp.Chr():
                return self._called(node, "chr", node.expressions)
            case exp.Initcap() | exp.Ceil() | exp.Floor():
                return self._called(node, node.key, [node.this])
            case exp.StrPosition():
                arguments = _arguments(node, "substr", "this", "position")
                return self._called(node, "locate", arguments)
            case exp.Substring():
                return self._called(node, "substring", _arguments(node, "this", "start", "length"))
            case exp.Trim():
                position = node.args.get("position") or ""
                name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim")
                return self._called(node, name, _arguments(node, "expression", "this"))
            case exp.Extract():
                unit = node.this.name.lower()
                return self._called(node, _EXTRACTED.get(unit, unit), [node.expression])
            case _:
                raise self._unsupported(node)

    def _operands(self, node: exp.Expr) -> tuple[Expression, Expression]:
        return self.expression(node.this), self.expression(node.expression)

    def _compared(self, node: exp.Binary) -> tuple[Expression, Expression]:
        """Translate the operands of a comparison.

        An error is raised if sqlglot groups the operators differently than Spark. In Spark, all
        comparisons have the same precedence: `a = b > c` is `(a = b) > c`. IN, BETWEEN and LIKE
        have a lower precedence: `a = b IN (c)` is `(a = b) IN (c)`.
        """
        if type(node.expression) in _LOWER_THAN_COMPARISONS or isinstance(node.this, exp.Between):
            raise self._unsupported(node)
        return self._operands(node)

    def _is(self, node: exp.Is) -> Predicate:
        operand = self.expression(node.this)
        match node.expression:
            case exp.Null():
                return IsNull(operand)
            case exp.Boolean(this=value):
                return Comparison("<=>", operand, Literal(bool(value), BOOLEAN))
            case _:
                raise self._unsupported(node)

    def _in(self, node: exp.In) -> Predicate:
        if not node.expressions:
            raise self._unsupported(node)
        operand = self.expression(node.this)
        values = tuple(self.expression(value) for value in node.expressions)
        literals = tuple(value for value in values if isinstance(value, Literal))
        if len(literals) == len(values):
            return In(operand, literals)
        return InExpressions(operand, values)

    def _between(self, node: exp.Between) -> Predicate:
        operand = self.expression(node.this)
        return And(
            (
                Comparison(">=", operand, self.expression(node.args["low"])),
                Comparison("<=", operand, self.expression(node.args["high"])),
            )
        )

    def _like(self, node: exp.Expr) -> Predicate:
        like, escape = node, "\\"
        if isinstance(node, exp.Escape):
            like, escape = node.this, self._constant_string(node, node.expression)
            if len(escape) != 1 or not isinstance(like, exp.Like | exp.ILike):
                raise self._unsupported(node)
        quantifier = like.expression
        patterns = self._quantified_patterns(node, quantifier)
        predicates = tuple(self._like_pattern(like, pattern, escape) for pattern in patterns)
        if like.args.get(
            "negate"
        ):  # NOT applies to each pattern: NOT LIKE ALL is true if no pattern matches
            predicates = tuple(map(Not, predicates))
        if len(predicates) == 1:
            return predicates[0]
        return And(predicates) if isinstance(quantifier, exp.All) else Or(predicates)

    def _quantified_patterns(self, node: exp.Expr, pattern: exp.Expr) -> list[exp.Expr]:
        match pattern:
            case exp.Any(this=in_parentheses) | exp.All(this=in_parentheses):
                match in_parentheses:
                    case exp.Tuple(expressions=[_, *_] as patterns):
                        return list(patterns)
                    case exp.Paren(this=only):
                        return [only]
                    case _:
                        raise self._unsupported(node)
            case _:
                return [pattern]

    def _like_pattern(self, node: exp.Expr, pattern_node: exp.Expr, escape: str) -> Predicate:
        pattern = self._constant_string(node, pattern_node)
        operand = self.expression(node.this)
        if isinstance(node, exp.ILike):
            return Like(call("lower", operand), pattern.lower(), escape)
        prefix = _PREFIX_PATTERN.fullmatch(pattern) if escape == "\\" else None
        if prefix is None:
            return Like(operand, pattern, escape)
        return StartsWith(operand, re.sub(r"\\(.)", r"\1", prefix[1], flags=re.DOTALL))

    def _constant_string(self, node: exp.Expr, value_node: exp.Expr) -> str:
        literal = self.expression(value_node)
        if not isinstance(literal, Literal) or not isinstance(literal.value, str):
            raise self._unsupported(node)
        return literal.value

    def _sum(self, node: exp.Add | exp.Sub) -> Expression:
        left, right = node.this, node.expression
        if isinstance(left, exp.Interval) and isinstance(node, exp.Add):
            left, right = right, left
        if not isinstance(right, exp.Interval):
            return call("+" if isinstance(node, exp.Add) else "-", *self._operands(node))
        amounts = interval(right)
        if amounts is None:
            raise self._unsupported(node)
        factor = 1 if isinstance(node, exp.Add) else -1
        literals = (Literal(factor * amount, LONG) for amount in amounts)
        return call("add_interval", self.expression(left), *literals)

    def _concatenation(self, node: exp.DPipe) -> Expression:
        operands = _flatten(node)
        # In Spark, || has the precedence of + and -; in sqlglot, of the bitwise operators.
        if any(type(operand) in _BITWISE for operand in operands) or any(
            isinstance(operand, exp.Add | exp.Sub) for operand in operands[1:]
        ):
            raise self._unsupported(node)
        return call("concat", *map(self.expression, operands))

    def _bitwise(self, node: exp.Expr) -> Expression:
        """Translate a chain of bitwise operators, which sqlglot parses from left to right."""
        chain: list[exp.Expr] = []
        while type(node) in _BITWISE and _is_plain(node):
            chain.append(node)
            node = node.this
        chain.reverse()
        operands = [self.expression(node), *(self.expression(part.expression) for part in chain)]
        return _bitwise(operands, [_BITWISE[type(part)] for part in chain])

    def _negated(self, node: exp.Neg) -> Expression:
        inner = node.this
        operand: Expression
        if isinstance(inner, exp.TryCast) and isinstance(inner.this, exp.Literal):
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

    def _case(self, node: exp.Case) -> Expression:
        parts: list[Expression] = []
        for branch in node.args["ifs"]:
            condition = self.expression(branch.this)
            if node.this is not None:
                condition = Comparison("=", self.expression(node.this), condition)
            parts += (condition, self.expression(branch.args["true"]))
        if node.args.get("default") is not None:
            parts.append(self.expression(node.args["default"]))
        return call("case", *parts)

    def _if(self, node: exp.If) -> Expression:
        otherwise = node.args.get("false")
        return call(
            "case",
            self.expression(node.this),
            self.expression(node.args["true"]),
            *([] if otherwise is None else [self.expression(otherwise)]),
        )

    def _called(self, node: exp.Expr, name: str, argument_nodes: list[exp.Expr]) -> Expression:
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

    def _column(self, node: exp.Column | exp.Dot) -> Expression:
        if isinstance(node, exp.Column):
            if not isinstance(node.this, exp.Identifier):
                raise self._unsupported(node)
            return Column(tuple(part.name for part in node.parts))
        parent = self.expression(node.this)
        if not isinstance(node.expression, exp.Identifier):
            raise self._unsupported(node)
        if isinstance(parent, Column):
            return Column((*parent.path, node.name))
        return call(".", parent, Literal(node.name, STRING))

    def _cast(self, node: exp.Cast) -> Expression:
        target = sql_type(node.to)
        if target is None:
            raise self._unsupported(node)
        operand = self.expression(node.this)
        if isinstance(operand, Literal) and not node.args.get("safe"):
            return cast_constant(operand, target)
        return Cast(operand, target, bool(node.args.get("safe")))

    def _unsupported(self, node: exp.Expr) -> PredicateError:
        part = node.sql(dialect="spark")
        return PredicateError(
            f"The expression {self._sql!r}: {part!r} isn't supported. {_SUPPORTED}",
            expression=part,
        )


_OPERANDS = frozenset({"this", "expression", "negate"})
_PARTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Anonymous: frozenset({"this", "expressions"}),
    exp.Between: frozenset({"this", "low", "high", "negate"}),
    exp.Bracket: frozenset({"this", "expressions"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.Cast: frozenset({"this", "to", "safe"}),
    exp.TryCast: frozenset({"this", "to", "safe"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Div: frozenset({"this", "expression", "typed", "safe"}),
    exp.Chr: frozenset({"expressions"}),
    exp.DPipe: frozenset({"this", "expression", "safe"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.In: frozenset({"this", "expressions", "negate"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.StrPosition: frozenset({"this", "substr", "position"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Trim: frozenset({"this", "position", "expression"}),
}

_PREFIX_PATTERN = re.compile(r"((?:[^%_\\]|\\[%_\\])*)%+", re.DOTALL)


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


def _is_plain(node: exp.Expr) -> bool:
    supported = _PARTS.get(type(node), _OPERANDS)
    return all(part in supported for part, value in node.args.items() if value)


def _arguments(node: exp.Expr, *parts: str) -> list[exp.Expr]:
    return [node.args[part] for part in parts if node.args.get(part) is not None]


def _flatten(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain of AND, OR or `||`, such as `a AND b AND c`."""
    operands: list[exp.Expr] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if type(current) is type(node):
            pending += (current.expression, current.this)
        else:
            operands.append(current)
    return operands
