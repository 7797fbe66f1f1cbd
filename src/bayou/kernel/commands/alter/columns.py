"""Columns that come, go, or get another name.

What stands in a column's metadata: comments and defaults, and how history describes a column.
"""

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
    ColumnPath,
    Position,
    field_at,
    path_text,
    spelled,
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
    refuse_if_used,
    refuse_if_used_for_layout,
)
from bayou.kernel.transaction.schema_evolution import check_names
from bayou.protocol import features
from bayou.protocol.column_rules import CURRENT_DEFAULT_KEY
from bayou.protocol.properties import SKIPPING_COLUMNS
from bayou.protocol.property_strings import column_paths
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from bayou.protocol.type_changes import TYPE_CHANGES_KEY

__all__ = [
    "NewColumn",
    "add_columns",
    "check_default",
    "described",
    "drop_columns",
    "rename_column",
]


def described(
    path: ColumnPath, field: StructField, *, with_type_changes: bool = False
) -> dict[str, object]:
    """A column as it stands in operation parameters."""
    metadata: dict[str, Any] = {
        key: value
        for key, value in field.metadata.items()
        if with_type_changes or key != TYPE_CHANGES_KEY
    }
    return {
        "name": path_text((*path[:-1], field.name)),
        "type": _type_name(field.data_type),
        "nullable": field.nullable,
        "metadata": metadata,
    }


def check_default(
    engine: Engine, state: TableState, column: str, data_type: DataType, text: str
) -> None:
    """Check that a text can be a column's default: it gives one value, whatever the row.

    Raises:
        UnsupportedFeatureError: the table lacks the feature.
        SchemaError: it isn't an expression, names a column, or gives another type.
    """
    if features.ALLOW_COLUMN_DEFAULTS not in features.writer_features(state.protocol):
        raise UnsupportedFeatureError(
            f"Column {column!r} of {state.path} can't have a default: the table lacks the feature "
            "allowColumnDefaults, which writers then must know. Add it first: "
            "alter.add_feature('allowColumnDefaults').",
            table=state.path,
            features=[features.ALLOW_COLUMN_DEFAULTS],
        )
    row = pa.RecordBatch.from_arrays([pa.nulls(1)], ["row"])
    try:
        expression = parse_expression(text)
        named = [".".join(path) for path in referenced_columns(expression)]
        if named:
            raise SchemaError(
                f"The default ({text}) of column {column!r} of {state.path} names the column "
                f"{named[0]!r}; a default is the same for every row.",
                table=state.path,
                column=column,
            )
        engine.expressions.evaluator(StructType(), expression, data_type).eval(row)
    except SchemaError:
        raise
    except BayouError as error:
        raise SchemaError(
            f"The default ({text}) of column {column!r} of {state.path} can't be used: {error}",
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
    """A column to be added; rows that are there already have nulls in it.

    Attributes:
        path: its name, behind the path of the struct that it comes to.
        field: its type and metadata; the name is that of the path.
        comment: free text.
        default: SQL of the value for rows that come without the column from now on.
        position: name of the field to stand behind; empty: first; None: last.
    """

    path: ColumnPath
    field: StructField
    comment: str | None = None
    default: str | None = None
    position: Position = None


def add_columns(
    engine: Engine, state: TableState, columns: Sequence[NewColumn], *, engine_info: str
) -> AlterationMetrics:
    """Add columns, and fields of structs.

    Raises:
        SchemaError: a name that is there already or can't be one, an unknown parent or neighbour, a
            column that may not be null.
        UnsupportedFeatureError: a default, in a table without the feature.
    """
    schema = state.schema
    described_columns: list[dict[str, object]] = []
    for column in columns:
        field = _field_of(engine, state, column)
        parent = column.path[:-1]
        parent = spelled(state.path, schema, parent) if parent else ()
        schema = with_field(state.path, schema, parent, field, column.position)
        description: dict[str, object] = {"column": described((*parent, field.name), field)}
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
    """Drop columns, and fields of structs: the data files keep them, and nobody reads them.

    Raises:
        SchemaError: an unknown column, the last one, or one that something rests on.
        UnsupportedFeatureError: the table has no column mapping, which this takes.
    """
    _ask_for_mapping(state, "dropped")
    schema = state.schema
    configuration = dict(state.properties)
    dropped: list[ColumnPath] = []
    for given in paths:
        path = spelled(state.path, schema, given)
        refuse_if_used_for_layout(state, path, "dropped")
        refuse_if_used(state, path, "dropped")
        schema = without_field(state.path, schema, path)
        configuration = _statistics_columns(configuration, path, None)
        dropped.append(path)
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.DROP_COLUMNS,
        parameters={"columns": as_json([path_text(path) for path in dropped])},
    )
    metadata = with_schema(state, schema, configuration=configuration)
    return alteration.commit(lambda builder: builder.with_metadata(metadata))


def rename_column(
    engine: Engine, state: TableState, path: ColumnPath, name: str, *, engine_info: str
) -> AlterationMetrics:
    """Give a column, or a field of a struct, another name.

    A partition column keeps partitioning, a clustering column clustering.

    Raises:
        SchemaError: an unknown column, a name that is taken, or an expression that uses the column.
        UnsupportedFeatureError: the table has no column mapping, which this takes.
    """
    _ask_for_mapping(state, "renamed")
    table = state.path
    path = spelled(table, state.schema, path)
    refuse_if_used(state, path, "renamed")
    parent = _parent(table, state.schema, path)
    if any(f.name.lower() == name.lower() and f.name != path[-1] for f in parent):
        raise SchemaError(
            f"{table} has a column {path_text((*path[:-1], name))!r} already (names are the same "
            "in any case).",
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
        parameters={"oldColumnPath": path_text(path), "newColumnPath": path_text(renamed)},
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
            f"Column {path_text(not_null)!r} can't be added to {state.path} as NOT NULL: the rows "
            "that are there have no value for it. Add it nullable, fill it, and set NOT NULL then.",
            table=state.path,
            column=path_text(not_null),
        )
    metadata = dict(field.metadata)
    if column.comment is not None:
        metadata["comment"] = column.comment
    if column.default is not None:
        check_default(engine, state, path_text(column.path), field.data_type, column.default)
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
            f"{table}: {path_text(path)!r} is the inside of a {data_type} and has no name to "
            "change.",
            table=table,
            column=path_text(path),
        )
    return data_type


def _position_text(position: str) -> str:
    return f"AFTER {position}" if position else "FIRST"


def _ask_for_mapping(state: TableState, what: str) -> None:
    if state.column_mapping == "none":
        raise UnsupportedFeatureError(
            f"A column of {state.path} can't be {what} while data files name columns as the table "
            "does. Turn column mapping on first: "
            "alter.set_properties({'delta.columnMapping.mode': 'name'}); it needs readers of "
            "version 2 and writers of version 5 "
            f"(DELTA_UNSUPPORTED_{'DROP' if what == 'dropped' else 'RENAME'}_COLUMN).",
            table=state.path,
            features=["columnMapping"],
        )


def _statistics_columns(
    configuration: dict[str, str], path: ColumnPath, renamed: ColumnPath | None
) -> dict[str, str]:
    """Properties whose list of columns with statistics follows a rename, or a drop."""
    text = configuration.get(SKIPPING_COLUMNS.key)
    if text is None:
        return configuration
    folded = [step.lower() for step in path]
    kept: list[ColumnPath] = []
    for column in column_paths(text):
        if [step.lower() for step in column[: len(path)]] != folded:
            kept.append(column)
        elif renamed is not None:
            kept.append((*renamed, *column[len(path) :]))
    written = ",".join(".".join(_quoted(step) for step in column) for column in kept)
    return {**configuration, SKIPPING_COLUMNS.key: written}


def _quoted(name: str) -> str:
    plain = name.replace("_", "").isalnum()
    return name if plain else "`" + name.replace("`", "``") + "`"
