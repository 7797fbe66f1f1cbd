"""Finds types for fields that an expression reads but that no record has contained yet.

Until a record contains such a field, the value of the field is NULL. An expression can still have a
value: if `tags` is NULL, `tags IS NULL OR size(tags) = 0` is TRUE. To resolve the expression, each
field is replaced by a NULL column of a type that fits the expression. No type fits some
subexpressions, such as `tags[0].name`. These subexpressions are replaced by NULL columns, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from bayou.errors import PredicateError
from bayou.kernel.expressions.model import (
    And,
    Column,
    Expression,
    Literal,
    Not,
    Or,
    Predicate,
    operands_of,
    referenced_columns,
)
from bayou.kernel.expressions.resolution import (
    map_operands,
    replace_columns,
    resolve,
    resolve_expression,
)
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

Path: TypeAlias = tuple[str, ...]

UNSEEN = "\0unseen "
"""Name prefix of the NULL columns that replace fields that no record has contained yet."""

_POSSIBLE_TYPES: tuple[DataType, ...] = (
    STRING,
    LONG,
    DOUBLE,
    BOOLEAN,
    TIMESTAMP,
    DATE,
    BINARY,
    ArrayType(element_type=STRING),
    ArrayType(element_type=LONG),
    MapType(key_type=STRING, value_type=STRING),
    MapType(key_type=STRING, value_type=LONG),
)
"""The types that are tried for a field."""

_MAX_ATTEMPTS = 1000


def resolutions(
    expression: Expression, schema: StructType, paths: Sequence[Path], *, is_condition: bool
) -> Iterator[tuple[Expression, StructType]]:
    """Resolve an expression once for each type that an unseen field can have.

    An unseen field is a field that no record has contained yet. Its type isn't known. If the type
    of the expression depends on the type of an unseen field, the yielded expressions have different
    types. If there are no unseen fields, one expression is yielded.

    Args:
        paths: the paths of the unseen fields. The fields aren't in `schema`.
        is_condition: whether the expression must be a boolean.

    Yields:
        The resolved expression, and `schema` with the columns that replace the unseen fields.

    Raises:
        PredicateError: a subexpression without unseen fields can't be resolved.
    """
    _check_seen_parts(expression, schema, paths, is_condition=is_condition)
    unseen = list(paths)
    expression = _with_resolvable_parts(expression, schema, unseen, is_condition=is_condition)
    fields = _read_by(expression, unseen)
    attempts: list[dict[Path, DataType]] = [{}]
    attempts += [{path: kind} for path in fields for kind in _POSSIBLE_TYPES]
    for fixed in attempts:
        types = _fitting_types(expression, schema, fields, is_condition=is_condition, fixed=fixed)
        if types is not None:
            replaced, whole = _with_types(expression, schema, types)
            yield _resolved(replaced, whole, is_condition=is_condition), whole


def _check_seen_parts(
    expression: Expression, schema: StructType, paths: Collection[Path], *, is_condition: bool
) -> None:
    """Raise an error if a subexpression that reads no field of `paths` can't be resolved."""
    if isinstance(expression, Literal):  # its type depends on the other operand
        return
    if not _read_by(expression, paths):
        _resolved(expression, schema, is_condition=is_condition)
        return
    for operand in operands_of(expression):
        _check_seen_parts(operand, schema, paths, is_condition=_has_conditions(expression))


def _with_resolvable_parts(
    expression: Expression, schema: StructType, paths: list[Path], *, is_condition: bool
) -> Expression:
    """Replace a subexpression by a new column if no types of its unseen fields make it resolvable.

    The paths of the new columns are appended to `paths`.
    """
    if isinstance(expression, Column) or not _read_by(expression, paths):
        return expression
    inside = _has_conditions(expression)
    expression = map_operands(
        expression, lambda o: _with_resolvable_parts(o, schema, paths, is_condition=inside)
    )
    types = _fitting_types(expression, schema, paths, is_condition=is_condition, fixed={})
    if types is not None:
        return expression
    path = (f"{UNSEEN}part {len(paths)}",)
    paths.append(path)
    return Column(path)


def _fitting_types(
    expression: Expression,
    schema: StructType,
    paths: Collection[Path],
    *,
    is_condition: bool,
    fixed: Mapping[Path, DataType],
) -> dict[Path, DataType] | None:
    """Choose types for the fields in `paths`, so that an expression can be resolved.

    The types are chosen field by field. A subexpression is checked as soon as all of its fields
    have types. The result is None if no types fit, or if the search takes too long.

    Args:
        fixed: required types of some fields. The same types are tried first for the other fields.
    """
    fields = _read_by(expression, paths)
    checks = _checks(expression, fields, is_condition=is_condition)
    kinds = sorted(_POSSIBLE_TYPES, key=lambda kind: kind not in fixed.values())
    types: dict[Path, DataType] = {}
    attempts = 0

    def extend(number: int) -> bool:
        nonlocal attempts
        if number == len(fields):
            return True
        path = fields[number]
        for kind in (fixed[path],) if path in fixed else kinds:
            attempts += 1
            if attempts > _MAX_ATTEMPTS:
                return False
            types[path] = kind
            fits = all(
                _can_be_resolved(part, schema, types, is_condition=condition)
                for part, condition in checks[number]
            )
            if fits and extend(number + 1):
                return True
        types.pop(path, None)
        return False

    return types if extend(0) else None


def _checks(
    expression: Expression, fields: Sequence[Path], *, is_condition: bool
) -> list[list[tuple[Expression, bool]]]:
    """For each field, return the subexpressions that can be checked once the field has a type.

    The types of `fields` are chosen in order. A subexpression can be checked when its last field
    has a type. Subexpressions of a returned subexpression are omitted if they have the same last
    field. Each subexpression is paired with whether it must be a boolean.
    """
    numbers = {path: number for number, path in enumerate(fields)}
    checks: list[list[tuple[Expression, bool]]] = [[] for _ in fields]

    def add(part: Expression, is_condition: bool, last_of_whole: int) -> None:
        last = max((numbers[path] for path in _read_by(part, fields)), default=-1)
        if last < 0:
            return
        if last < last_of_whole:
            checks[last].append((part, is_condition))
        for operand in operands_of(part):
            add(operand, _has_conditions(part), last)

    add(expression, is_condition, len(fields))
    return checks


def _with_types(
    expression: Expression, schema: StructType, types: Mapping[Path, DataType]
) -> tuple[Expression, StructType]:
    """Replace fields of an expression by new columns, and add these columns to `schema`.

    Args:
        types: the type of each field to replace, by the field's path.

    Returns:
        The new expression, and `schema` with the new columns.
    """
    by_path = {
        path: StructField(name=f"{UNSEEN}{number}", data_type=kind)
        for number, (path, kind) in enumerate(types.items())
    }

    def stand_in(column: Column) -> Expression:
        field = by_path.get(column.path)
        return column if field is None else Column((field.name,))

    return replace_columns(expression, stand_in), StructType((*schema, *by_path.values()))


def _can_be_resolved(
    expression: Expression,
    schema: StructType,
    types: Mapping[Path, DataType],
    *,
    is_condition: bool,
) -> bool:
    try:
        _resolved(*_with_types(expression, schema, types), is_condition=is_condition)
    except PredicateError:
        return False
    return True


def _resolved(expression: Expression, schema: StructType, *, is_condition: bool) -> Expression:
    if not is_condition:
        return resolve_expression(expression, schema)
    assert isinstance(expression, Predicate)  # the parser returns only subclasses of Predicate
    return resolve(expression, schema)


def _has_conditions(expression: Expression) -> bool:
    """Whether the operands of an expression must be booleans."""
    return isinstance(expression, And | Or | Not)


def _read_by(expression: Expression, paths: Collection[Path]) -> list[Path]:
    return [path for path in dict.fromkeys(referenced_columns(expression)) if path in paths]
