"""CHECK constraints (PROTOCOL.md, CHECK Constraints), and the validation of existing rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from bayou.errors import (
    ArgumentError,
    ConstraintViolationError,
    EvaluationError,
    PredicateError,
    TablePropertyError,
)
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.batch_conversion import conform_to_schema
from bayou.kernel.commands.alter.alteration import Alteration, AlterationMetrics
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.functions import check_exact
from bayou.kernel.expressions.model import Column, IsNull, Predicate, col, referenced_columns
from bayou.kernel.expressions.resolution import resolve, resolve_expression, type_of
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.transform import read_scan_file
from bayou.protocol.column_metadata import CONSTRAINT_PREFIX
from bayou.protocol.schema import BOOLEAN, VOID, ArrayType, MapType, StructField, StructType


def check_rows(
    engine: Engine,
    state: TableState,
    name: str,
    sql: str,
    predicate: Predicate,
    *,
    time_zone: str,
) -> None:
    """Check that a new CHECK constraint is true for every row; reads all files.

    Args:
        name, sql: name and SQL condition of the constraint, for error messages.
        predicate: the resolved condition.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """
    used = list(dict.fromkeys(path[0].lower() for path in referenced_columns(predicate)))
    columns = StructType(tuple(f for f in state.schema if f.name.lower() in used))
    evaluator = engine.expressions.predicate_evaluator(columns, predicate)
    with _batches(engine, state, columns, None, time_zone) as batches:
        for batch in batches:
            try:
                valid = evaluator.eval(batch)
            except EvaluationError as error:
                raise _violated(
                    state, name, sql, f"the condition can't be evaluated: {error}"
                ) from error
            if valid.true_count == len(valid):
                continue
            index: int = valid.index(False).as_py()
            row = batch.slice(index, 1).to_pylist()[0]
            values = ", ".join(f"{column} = {_format(value)}" for column, value in row.items())
            raise _violated(
                state,
                name,
                sql,
                f"the condition isn't true for {f'a row with {values}' if values else 'any row'}",
            )


def check_not_null(engine: Engine, state: TableState, column: StructField) -> None:
    """Check that no row violates the NOT NULL constraints of a top-level column and its fields."""
    # With this filter, files are skipped if their statistics count no nulls.
    nested = isinstance(column.data_type, StructType | ArrayType | MapType)
    is_null = None if nested else IsNull(operand=col(column.name))
    columns = state.schema.select([column.name])
    try:
        with _batches(engine, state, columns, is_null) as batches:
            for batch in batches:
                conform_to_schema(state.path, StructType((column,)), batch)
    except ConstraintViolationError as error:
        row = _first_violation(engine, state, column, is_null)
        values = ", ".join(f"{name} = {_format(value)}" for name, value in row.items())
        raise ConstraintViolationError(
            f"{error.message} The first affected row has {values}.",
            table=error.table,
            constraint=error.constraint,
        ) from error


def extreme_value(engine: Engine, state: TableState, column: str, *, highest: bool) -> int | None:
    """Return the highest or lowest value of an integer column; None if no row has a value."""
    ends: list[int] = []
    with _batches(engine, state, state.schema.select([column]), None) as batches:
        for batch in batches:
            bounds = pc.min_max(batch.column(0)).as_py()
            ends += [end for end in (bounds["max" if highest else "min"],) if end is not None]
    return (max if highest else min)(ends, default=None)


def _first_violation(
    engine: Engine, state: TableState, column: StructField, filter: Predicate | None
) -> dict[str, object]:
    """Return the first row in which `column`, or a field inside it, violates NOT NULL.

    Args:
        filter: predicate by which files are skipped. The rows of the other files aren't filtered.
            If None, all files are read.

    Returns:
        The values of the row by column name; empty if no row violates NOT NULL.
    """
    schema = StructType((column,))
    with _batches(engine, state, state.schema, filter) as batches:
        for batch in batches:
            checked = batch.select([column.name])
            if _is_valid(state, schema, checked):
                continue
            valid, count = 0, batch.num_rows
            while count - valid > 1:  # rows[:valid] are valid, rows[:count] have an invalid row
                middle = (valid + count) // 2
                if _is_valid(state, schema, checked.slice(0, middle)):
                    valid = middle
                else:
                    count = middle
            row: dict[str, object] = batch.slice(valid, 1).to_pylist()[0]
            return row
    return {}


def _is_valid(state: TableState, schema: StructType, rows: pa.RecordBatch) -> bool:
    try:
        conform_to_schema(state.path, schema, rows)
    except ConstraintViolationError:
        return False
    return True


@closeable
def _batches(
    engine: Engine,
    state: TableState,
    columns: StructType,
    filter: Predicate | None,
    time_zone: str = "UTC",
) -> Iterator[pa.RecordBatch]:
    builder = ScanBuilder(state).with_filter(filter).with_read_schema(columns)
    scan = builder.with_time_zone(time_zone).build()
    scan_state = scan.scan_state(engine)
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            with read_scan_file(engine, scan_state, file) as batches:
                yield from batches


def _violated(state: TableState, name: str, sql: str, reason: str) -> ConstraintViolationError:
    return ConstraintViolationError(
        f"{state.path}: existing rows violate the new CHECK constraint {name} ({sql}): {reason} "
        "(DELTA_NEW_CHECK_CONSTRAINT_VIOLATION). The constraint wasn't added. Correct the rows "
        "first.",
        table=state.path,
        constraint=f"CHECK constraint {name}",
    )


def _format(value: object) -> str:
    string = repr(value)
    return string if len(string) <= 60 else f"{string[:60]}..."


def add_constraint(
    engine: Engine,
    state: TableState,
    name: str,
    sql: str,
    *,
    engine_info: str,
    time_zone: str = "UTC",
) -> AlterationMetrics:
    """Add a CHECK constraint after checking the existing rows.

    Args:
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """
    if not re.fullmatch(r"[^\s.`]+", name):
        raise ArgumentError(
            f"{state.path}: {name!r} isn't a valid constraint name. Use no whitespace, dots or "
            "backticks.",
            argument="name",
        )
    existing = _find_key(state, name)
    if existing is not None:
        raise TablePropertyError(
            f"{state.path}: constraint {name!r} already exists ({state.properties[existing]}) "
            "(DELTA_CONSTRAINT_ALREADY_EXISTS). Drop it first, or choose another name.",
            table=state.path,
            key=existing,
        )
    predicate = constraint_predicate(state.path, state.schema, name, sql)
    check_rows(engine, state, name, sql, predicate, time_zone=time_zone)
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.ADD_CONSTRAINT,
        parameters={"name": name, "expr": sql},
        reads_rows=True,
    )
    key = f"{CONSTRAINT_PREFIX}{name.lower()}"
    return alteration.commit(
        lambda builder: builder.with_table_properties({key: sql}).with_files_checked()
    )


def constraint_predicate(table: str, schema: StructType, name: str, sql: str) -> Predicate:
    """Parse and resolve a CHECK constraint; raise `PredicateError` if it's invalid."""
    expression = parse_expression(sql)
    for path in referenced_columns(expression):
        try:
            type_of(Column(path), schema)
        except PredicateError as error:
            raise PredicateError(
                f"{table}: cannot resolve {'.'.join(path)!r} in the CHECK constraint {name} "
                f"({sql}) (UNRESOLVED_COLUMN.WITH_SUGGESTION). {error.message}",
                expression=sql,
            ) from error
    data_type = type_of(resolve_expression(expression, schema), schema)
    if data_type not in (BOOLEAN, VOID):
        raise PredicateError(
            f"{table}: the CHECK constraint {name} ({sql}) isn't a boolean expression, it has type "
            f"{data_type} (DELTA_NON_BOOLEAN_CHECK_CONSTRAINT). Use a condition.",
            expression=sql,
        )
    predicate = resolve(parse_predicate(sql), schema)
    check_exact(predicate)
    return predicate


def drop_constraint(
    engine: Engine, state: TableState, name: str, *, if_exists: bool = False, engine_info: str
) -> AlterationMetrics:
    """Drop a constraint."""
    key = _find_key(state, name)
    if key is None:
        if if_exists:
            return AlterationMetrics(version=state.version, num_commits=0)
        names = [k.removeprefix(CONSTRAINT_PREFIX) for k in _keys(state)]
        raise TablePropertyError(
            f"{state.path}: no constraint is named {name!r} (DELTA_CONSTRAINT_DOES_NOT_EXIST). "
            f"The table's constraints are: {', '.join(names) or 'none'}.",
            table=state.path,
            key=f"{CONSTRAINT_PREFIX}{name}",
        )
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.DROP_CONSTRAINT,
        parameters={"name": name, "expr": state.properties[key], "existed": "true"},
    )
    return alteration.commit(lambda builder: builder.with_table_properties_removed([key]))


def _keys(state: TableState) -> list[str]:
    return [key for key in state.properties if key.lower().startswith(CONSTRAINT_PREFIX)]


def _find_key(state: TableState, name: str) -> str | None:
    folded = f"{CONSTRAINT_PREFIX}{name}".lower()
    return next((key for key in _keys(state) if key.lower() == folded), None)
