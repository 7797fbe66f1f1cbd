"""CHECK constraints (PROTOCOL.md, CHECK Constraints)."""

from __future__ import annotations

import re

from bayou.errors import ArgumentError, PredicateError, TablePropertyError
from bayou.kernel.commands.alter.alteration import Alteration, AlterationMetrics
from bayou.kernel.commands.alter.existing_rows import refuse_broken
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.resolution import resolve, type_of
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.protocol.features import CONSTRAINT_PREFIX
from bayou.protocol.schema import BOOLEAN

__all__ = ["add_constraint", "drop_constraint"]


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
