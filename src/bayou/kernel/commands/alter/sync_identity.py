"""SYNC IDENTITY: move an identity column's high water mark past values that users inserted."""

from __future__ import annotations

from bayou.errors import SchemaError
from bayou.kernel.commands.alter.alteration import (
    Alteration,
    AlterationMetrics,
    as_json,
    with_schema,
)
from bayou.kernel.commands.alter.columns import column_description
from bayou.kernel.commands.alter.constraints import extreme_value
from bayou.kernel.commands.alter.schema_paths import field_at, resolve_path, with_changed_field
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.column_dependencies import ColumnPath, quote_path
from bayou.protocol.column_metadata import IdentityColumn, identity_column, with_high_water_mark


def sync_identity(
    engine: Engine, state: TableState, path: ColumnPath, *, engine_info: str
) -> AlterationMetrics:
    """Advance the high water mark of an identity column to the furthest value in the data files.

    The furthest value is the highest value, or the lowest value if the column's step is negative.
    """
    table = state.path
    path = resolve_path(table, state.schema, path)
    field = field_at(table, state.schema, path)
    column = identity_column(field) if len(path) == 1 else None
    if column is None:
        raise SchemaError(
            f"{table}: SYNC IDENTITY requires an identity column, and {quote_path(path)!r} isn't "
            "one (DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN). Choose an identity column.",
            table=table,
            column=quote_path(path),
        )
    furthest = extreme_value(engine, state, field.name, highest=column.step > 0)
    mark = None if furthest is None else _mark(column, furthest)
    if mark is None:
        return AlterationMetrics(version=state.version, num_commits=0)
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.CHANGE_COLUMN,
        parameters={"column": as_json(column_description(path, field))},
        reads_rows=True,
    )
    schema = with_changed_field(table, state.schema, path, lambda f: with_high_water_mark(f, mark))
    metadata = with_schema(state, schema)
    return alteration.commit(lambda builder: builder.with_metadata(metadata))


def _mark(column: IdentityColumn, furthest: int) -> int | None:
    """Return the column's new high water mark; None if the mark doesn't change.

    Args:
        furthest: highest value in the column, or lowest value if the column's step is negative.
    """
    sign = 1 if column.step > 0 else -1
    old = column.high_water_mark
    mark = _generated_value(column, furthest)
    if old is not None and (old - mark) * sign > 0:
        mark = old
    if old is not None and (old - column.start) * sign < 0:
        return mark  # the old high water mark precedes the start, which is invalid
    # If all values precede the start, the next generated value is still the start.
    reaches_start = (furthest - column.start) * sign >= 0
    return mark if reaches_start and mark != old else None


def _generated_value(column: IdentityColumn, value: int) -> int:
    """Return the first value that the column generates at or after `value`.

    "After" means higher if the column's step is positive, and lower if it is negative.
    """
    steps = -(-(value - column.start) // column.step)
    return column.start + column.step * steps
