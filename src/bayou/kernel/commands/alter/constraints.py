"""CHECK constraints (PROTOCOL.md, CHECK Constraints).

Do the rows of a table keep a rule that it is to be given?
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import (
    ArgumentError,
    ConstraintViolationError,
    EvaluationError,
    PredicateError,
    TablePropertyError,
)
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.commands.alter.alteration import Alteration, AlterationMetrics
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import IsNull, Predicate, col, referenced_columns
from bayou.kernel.expressions.resolution import resolve, type_of
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.transform import read_scan_file
from bayou.kernel.schema_enforcement import conform
from bayou.protocol.features import CONSTRAINT_PREFIX
from bayou.protocol.schema import BOOLEAN, ArrayType, MapType, StructField, StructType

__all__ = ["add_constraint", "drop_constraint", "extreme_value", "refuse_broken", "refuse_nulls"]


pc: Any = pyarrow.compute


def refuse_broken(
    engine: Engine, state: TableState, name: str, text: str, predicate: Predicate
) -> None:
    """Check that a condition is true of every row; all files are read.

    Raises:
        ConstraintViolationError: of one it isn't, or it can't be evaluated; shows the row's values.
    """
    used = list(dict.fromkeys(path[0].lower() for path in referenced_columns(predicate)))
    columns = StructType(tuple(f for f in state.schema if f.name.lower() in used))
    evaluator = engine.expressions.predicate_evaluator(columns, predicate)
    with _batches(engine, state, columns, None) as batches:
        for batch in batches:
            try:
                fine = evaluator.eval(batch)
            except EvaluationError as error:
                raise _broken(state, name, text, f"it can't be evaluated: {error}") from error
            if fine.true_count == len(fine):
                continue
            index: int = fine.index(False).as_py()
            values = batch.slice(index, 1).to_pylist()[0]
            shown = ", ".join(f"{column} = {_shown(value)}" for column, value in values.items())
            raise _broken(state, name, text, f"it isn't true of a row with {shown or 'its values'}")


def refuse_nulls(engine: Engine, state: TableState, column: StructField) -> None:
    """Check that no row has a null where a top-level column, or what is in it, says NOT NULL.

    Raises:
        ConstraintViolationError: one has; names the column and counts.
    """
    # Files whose statistics count no null needn't be read.
    nested = isinstance(column.data_type, StructType | ArrayType | MapType)
    wanted = None if nested else IsNull(operand=col(column.name))
    columns = state.schema.select([column.name])
    try:
        with _batches(engine, state, columns, wanted) as batches:
            for batch in batches:
                conform(state.path, StructType((column,)), batch)
    except ConstraintViolationError as error:
        row = _first_broken(engine, state, column, wanted)
        shown = ", ".join(f"{name} = {_shown(value)}" for name, value in row.items())
        raise ConstraintViolationError(
            f"{error.message} The first such row has {shown}.",
            table=error.table,
            constraint=error.constraint,
        ) from error


def extreme_value(engine: Engine, state: TableState, column: str, *, highest: bool) -> int | None:
    """The highest or lowest value of a column of whole numbers; None for none but nulls."""
    ends: list[int] = []
    with _batches(engine, state, state.schema.select([column]), None) as batches:
        for batch in batches:
            bounds = pc.min_max(batch.column(0)).as_py()
            ends += [end for end in (bounds["max" if highest else "min"],) if end is not None]
    return (max if highest else min)(ends, default=None)


def _first_broken(
    engine: Engine, state: TableState, column: StructField, wanted: Predicate | None
) -> dict[str, object]:
    """The columns of the first row that has a null where the column says NOT NULL."""
    rule = StructType((column,))
    with _batches(engine, state, state.schema, wanted) as batches:
        for batch in batches:
            checked = batch.select([column.name])
            if _keeps(state, rule, checked):
                continue
            fine, count = 0, batch.num_rows
            while count - fine > 1:  # the first so many rows are fine, so many aren't
                middle = (fine + count) // 2
                if _keeps(state, rule, checked.slice(0, middle)):
                    fine = middle
                else:
                    count = middle
            row: dict[str, object] = batch.slice(fine, 1).to_pylist()[0]
            return row
    return {}


def _keeps(state: TableState, rule: StructType, rows: pa.RecordBatch) -> bool:
    try:
        conform(state.path, rule, rows)
    except ConstraintViolationError:
        return False
    return True


@closeable
def _batches(
    engine: Engine, state: TableState, columns: StructType, filter: Predicate | None
) -> Iterator[pa.RecordBatch]:
    builder = ScanBuilder(state).with_filter(filter).with_read_schema(columns)
    scan = builder.build()
    scan_state = scan.scan_state(engine)
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            with read_scan_file(engine, scan_state, file) as batches:
                yield from batches


def _broken(state: TableState, name: str, text: str, what: str) -> ConstraintViolationError:
    return ConstraintViolationError(
        f"Rows of {state.path} break the new CHECK constraint {name} ({text}): {what} "
        "(DELTA_NEW_CHECK_CONSTRAINT_VIOLATION). Nothing was changed; correct the rows first.",
        table=state.path,
        constraint=f"CHECK constraint {name}",
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def add_constraint(
    engine: Engine, state: TableState, name: str, text: str, *, engine_info: str
) -> AlterationMetrics:
    """Add a condition that must be true of every row; those that are there are checked first.

    Raises:
        PredicateError: the text isn't a condition over the table's columns.
        TablePropertyError: there is a constraint of that name.
        ConstraintViolationError: a row breaks it; shows the row's values.
    """
    if not re.fullmatch(r"[^\s.`]+", name):
        raise ArgumentError(
            f"A constraint can't be named {name!r}: no blanks, dots or backticks.", argument="name"
        )
    there = _named(state, name)
    if there is not None:
        raise TablePropertyError(
            f"{state.path} has a constraint {name!r} already ({state.properties[there]}) "
            "(DELTA_CONSTRAINT_ALREADY_EXISTS). Drop it first, or choose another name.",
            table=state.path,
            key=there,
        )
    predicate = resolve(parse_predicate(text), state.schema)
    if type_of(predicate, state.schema) != BOOLEAN:
        raise PredicateError(
            f"The constraint {name} ({text}) isn't a condition: it is neither true nor false.",
            expression=text,
        )
    refuse_broken(engine, state, name, text, predicate)
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.ADD_CONSTRAINT,
        parameters={"name": name, "expr": text},
        reads_rows=True,
    )
    key = f"{CONSTRAINT_PREFIX}{name.lower()}"
    return alteration.commit(
        lambda builder: builder.with_table_properties({key: text}).with_files_checked()
    )


def drop_constraint(
    engine: Engine, state: TableState, name: str, *, if_exists: bool = False, engine_info: str
) -> AlterationMetrics:
    """Drop a constraint.

    Raises:
        TablePropertyError: there is none of that name.
    """
    key = _named(state, name)
    if key is None:
        if if_exists:
            return AlterationMetrics(version=state.version, num_commits=0)
        names = [k.removeprefix(CONSTRAINT_PREFIX) for k in _keys(state)]
        raise TablePropertyError(
            f"{state.path} has no constraint {name!r}; it has {', '.join(names) or 'none'} "
            "(DELTA_CONSTRAINT_DOES_NOT_EXIST).",
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


def _named(state: TableState, name: str) -> str | None:
    wanted = f"{CONSTRAINT_PREFIX}{name}".lower()
    return next((key for key in _keys(state) if key.lower() == wanted), None)
