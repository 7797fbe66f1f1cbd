"""ADD COLUMNS, DROP COLUMNS and RENAME COLUMN, and the checks of column defaults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bayou.errors import BayouError, SchemaError, UnsupportedFeatureError
from bayou.kernel.commands.alter.alteration import (
    Alteration,
    AlterationMetrics,
    as_json,
    with_schema,
)
from bayou.kernel.commands.alter.schema_paths import (
    Position,
    field_at,
    resolve_path,
    with_changed_field,
    with_field,
    without_field,
)
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.column_dependencies import (
    ColumnPath,
    check_not_in_layout,
    check_not_referenced,
    quote_path,
)
from bayou.kernel.transaction.schema_evolution import check_names
from bayou.protocol import features
from bayou.protocol.column_metadata import CURRENT_DEFAULT_KEY
from bayou.protocol.properties import SKIPPING_COLUMNS
from bayou.protocol.property_strings import column_paths
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from bayou.protocol.sql import quote_if_needed
from bayou.protocol.type_widening import TYPE_CHANGES_KEY


def column_description(
    path: ColumnPath, field: StructField, *, with_type_changes: bool = False
) -> dict[str, object]:
    """Return the JSON object that describes a column in operation parameters of `commitInfo`.

    Args:
        with_type_changes: whether the object includes the type changes in the column's metadata.
    """
    metadata: dict[str, Any] = {
        key: value
        for key, value in field.metadata.items()
        if with_type_changes or key != TYPE_CHANGES_KEY
    }
    return {
        "name": quote_path((*path[:-1], field.name)),
        "type": _type_name(field.data_type),
        "nullable": field.nullable,
        "metadata": metadata,
    }


def check_default(
    engine: Engine, state: TableState, column: str, data_type: DataType, sql: str
) -> None:
    """Check that a column default is valid: a constant SQL expression of the column's type."""
    if features.ALLOW_COLUMN_DEFAULTS not in features.writer_features(state.protocol):
        raise UnsupportedFeatureError(
            f"{state.path}: column {column!r} can't have a default without the table feature "
            "allowColumnDefaults. Add the feature with "
            "alter.add_feature('allowColumnDefaults'); all writers must then support it.",
            table=state.path,
            features=[features.ALLOW_COLUMN_DEFAULTS],
        )
    row = pa.RecordBatch.from_arrays([pa.nulls(1)], ["row"])
    try:
        expression = parse_expression(sql)
        referenced = [".".join(path) for path in referenced_columns(expression)]
        if referenced:
            raise SchemaError(
                f"{state.path}: the default ({sql}) of column {column!r} references column "
                f"{referenced[0]!r}. Use a constant expression.",
                table=state.path,
                column=column,
            )
        engine.expressions.evaluator(StructType(), expression, data_type).eval(row)
    except SchemaError:
        raise
    except BayouError as error:
        raise SchemaError(
            f"{state.path}: the default ({sql}) of column {column!r} is invalid. {error}",
            table=state.path,
            column=column,
        ) from error


def _type_name(data_type: DataType) -> str:
    match data_type:
        case StructType():
            return "struct"
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case _:
            return str(data_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to add; it is null in existing rows.

    Attributes:
        path: path of the new column or nested field.
        field: type and metadata of the column; the name is taken from the path.
        default: SQL expression for the column's value in new rows that don't provide the column;
            None for NULL.
        position: name of the preceding field. An empty string is the first position, None the last.
    """

    path: ColumnPath
    field: StructField
    comment: str | None = None
    default: str | None = None
    position: Position = None


def add_columns(
    engine: Engine, state: TableState, columns: Sequence[NewColumn], *, engine_info: str
) -> AlterationMetrics:
    """Add columns and nested fields."""
    schema = state.schema
    described_columns: list[dict[str, object]] = []
    for column in columns:
        field = _field_of(engine, state, column)
        parent = column.path[:-1]
        parent = resolve_path(state.path, schema, parent) if parent else ()
        schema = with_field(state.path, schema, parent, field, column.position)
        description: dict[str, object] = {
            "column": column_description((*parent, field.name), field)
        }
        if column.position is not None:
            description["position"] = _position_text(column.position)
        described_columns.append(description)
    check_names(state.path, schema, mapped=state.column_mapping != "none")
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.ADD_COLUMNS,
        parameters={"columns": as_json(described_columns)},
    )
    return alteration.commit(lambda builder: builder.with_metadata(with_schema(state, schema)))


def drop_columns(
    engine: Engine, state: TableState, paths: Sequence[ColumnPath], *, engine_info: str
) -> AlterationMetrics:
    """Drop columns and nested fields from the schema; data files aren't rewritten."""
    _require_mapping(state, "dropped")
    schema = state.schema
    configuration = dict(state.properties)
    dropped: list[ColumnPath] = []
    for requested in paths:
        path = resolve_path(state.path, schema, requested)
        check_not_in_layout(state, path, "dropped")
        check_not_referenced(state, path, "dropped")
        schema = without_field(state.path, schema, path)
        configuration = _statistics_columns(configuration, path, None)
        dropped.append(path)
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.DROP_COLUMNS,
        parameters={"columns": as_json([quote_path(path) for path in dropped])},
    )
    metadata = with_schema(state, schema, configuration=configuration)
    return alteration.commit(lambda builder: builder.with_metadata(metadata))


def rename_column(
    engine: Engine, state: TableState, path: ColumnPath, name: str, *, engine_info: str
) -> AlterationMetrics:
    """Rename a column or nested field; partition and clustering columns are renamed, too.

    A new name that differs from the old name only in case is allowed.
    """
    _require_mapping(state, "renamed")
    table = state.path
    path = resolve_path(table, state.schema, path)
    check_not_referenced(state, path, "renamed")
    parent = _parent(table, state.schema, path)
    others = (f.name.lower() for f in parent if f.name != path[-1])
    if name == path[-1] or name.lower() in others:
        raise SchemaError(
            f"{table}: column {quote_path((*path[:-1], name))!r} already exists "
            "(FIELD_ALREADY_EXISTS). Names are case-insensitive; choose another name.",
            table=table,
            column=name,
        )
    schema = with_changed_field(table, state.schema, path, lambda f: replace(f, name=name))
    check_names(table, schema, mapped=True)
    partition_columns = [
        name if len(path) == 1 and column == path[0] else column
        for column in state.partition_columns
    ]
    renamed = (*path[:-1], name)
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.RENAME_COLUMN,
        parameters={"oldColumnPath": quote_path(path), "newColumnPath": quote_path(renamed)},
    )
    metadata = with_schema(
        state,
        schema,
        partition_columns=partition_columns,
        configuration=_statistics_columns(dict(state.properties), path, renamed),
    )
    return alteration.commit(lambda builder: builder.with_metadata(metadata))


def _field_of(engine: Engine, state: TableState, column: NewColumn) -> StructField:
    field = replace(column.field, name=column.path[-1])
    not_null = next(_not_null(field, column.path), None)
    if not_null is not None:
        raise SchemaError(
            f"{state.path}: column {quote_path(not_null)!r} can't be added as NOT NULL, because "
            "existing rows have no value. Add it as nullable, fill it, then set NOT NULL.",
            table=state.path,
            column=quote_path(not_null),
        )
    metadata = dict(field.metadata)
    if column.comment is not None:
        metadata["comment"] = column.comment
    if column.default is not None:
        check_default(engine, state, quote_path(column.path), field.data_type, column.default)
        metadata[CURRENT_DEFAULT_KEY] = column.default
    return replace(field, metadata=metadata)


def _not_null(field: StructField, path: ColumnPath) -> Iterator[ColumnPath]:
    if not field.nullable:
        yield path
    yield from _not_null_inside(field.data_type, path)


def _not_null_inside(data_type: DataType, path: ColumnPath) -> Iterator[ColumnPath]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield from _not_null(field, (*path, field.name))
        case ArrayType():
            yield from _not_null_inside(data_type.element_type, (*path, "element"))
        case MapType():
            yield from _not_null_inside(data_type.key_type, (*path, "key"))
            yield from _not_null_inside(data_type.value_type, (*path, "value"))
        case _:
            return


def _parent(table: str, schema: StructType, path: ColumnPath) -> StructType:
    data_type = field_at(table, schema, path[:-1]).data_type if path[:-1] else schema
    if not isinstance(data_type, StructType):
        raise SchemaError(
            f"{table}: {quote_path(path)!r} can't be renamed, because it is part of a "
            f"{data_type} and has no name. Only columns and struct fields can be renamed.",
            table=table,
            column=quote_path(path),
        )
    return data_type


def _position_text(position: str) -> str:
    return f"AFTER {position}" if position else "FIRST"


def _require_mapping(state: TableState, change: str) -> None:
    if state.column_mapping == "none":
        raise UnsupportedFeatureError(
            f"{state.path}: a column can't be {change} without column mapping "
            f"(DELTA_UNSUPPORTED_{'DROP' if change == 'dropped' else 'RENAME'}_COLUMN). Enable "
            "column mapping with alter.set_table_properties({'delta.columnMapping.mode': 'name'}); "
            "the table then requires reader version 2 and writer version 5.",
            table=state.path,
            features=["columnMapping"],
        )


def _statistics_columns(
    configuration: dict[str, str], path: ColumnPath, renamed: ColumnPath | None
) -> dict[str, str]:
    """Rename a column in the table property `delta.dataSkippingStatsColumns`.

    If `renamed` is None, the column is removed from this property. Returns all table properties.
    """
    value = configuration.get(SKIPPING_COLUMNS.key)
    if value is None:
        return configuration
    folded = [step.lower() for step in path]
    columns: list[ColumnPath] = []
    for column in column_paths(value):
        if [step.lower() for step in column[: len(path)]] != folded:
            columns.append(column)
        elif renamed is not None:
            columns.append((*renamed, *column[len(path) :]))
    updated = ",".join(".".join(quote_if_needed(step) for step in column) for column in columns)
    return {**configuration, SKIPPING_COLUMNS.key: updated}
