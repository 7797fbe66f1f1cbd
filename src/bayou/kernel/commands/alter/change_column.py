"""CHANGE COLUMN: change a column's type, nullability, default, comment or position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayou.errors import SchemaError, UnsupportedFeatureError
from bayou.kernel.commands.alter.alteration import (
    Alteration,
    AlterationMetrics,
    as_json,
    with_schema,
)
from bayou.kernel.commands.alter.columns import check_default, column_description
from bayou.kernel.commands.alter.constraints import check_not_null
from bayou.kernel.commands.alter.schema_paths import (
    Position,
    field_at,
    resolve_path,
    with_changed_field,
)
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.column_dependencies import (
    ColumnPath,
    check_not_referenced,
    quote_path,
)
from bayou.kernel.transaction.metadata_update import preview_version
from bayou.protocol import features
from bayou.protocol.column_metadata import (
    CHAR_VARCHAR_KEY,
    CURRENT_DEFAULT_KEY,
    GENERATION_EXPRESSION_KEY,
    IDENTITY_START_KEY,
)
from bayou.protocol.schema import STRING, VOID, StructField, StructType
from bayou.protocol.sql import length_limits
from bayou.protocol.type_widening import is_widening, with_type_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    engine: Engine
    state: TableState
    path: ColumnPath
    engine_info: str

    def commit(
        self,
        schema: StructType,
        *,
        position: Position = None,
        reads_rows: bool = False,
        features_needed: tuple[str, ...] = (),
    ) -> AlterationMetrics:
        field = field_at(self.state.path, schema, self.path)
        parameters: dict[str, object] = {"column": as_json(column_description(self.path, field))}
        if position is not None:
            parameters["position"] = f"AFTER {position}" if position else "FIRST"
        alteration = Alteration(
            engine=self.engine,
            state=self.state,
            engine_info=self.engine_info,
            operation=Operation.CHANGE_COLUMN,
            parameters=parameters,
            reads_rows=reads_rows,
        )
        metadata = with_schema(self.state, schema)
        return alteration.commit(
            lambda builder: builder.with_metadata(metadata).with_features(features_needed)
        )

    def edited(self, change: Callable[[StructField], StructField]) -> StructType:
        return with_changed_field(self.state.path, self.state.schema, self.path, change)


def change_type(
    engine: Engine, state: TableState, path: ColumnPath, to: StructField, *, engine_info: str
) -> AlterationMetrics:
    """Widen a column's type without rewriting files.

    These changes are possible even if type widening is disabled:

    - A column of type void, which contains only nulls, can change to any type.
    - The length limit of a varchar column can be raised or removed.
    - The length limit of a char column can be removed.

    Args:
        to: field with the new type, or with the new varchar limit; the field's name is ignored.
    """
    return change_column(engine, state, path, to=to, engine_info=engine_info)


def change_column(
    engine: Engine,
    state: TableState,
    path: ColumnPath,
    *,
    to: StructField | None = None,
    comment: str | None = None,
    position: Position = None,
    engine_info: str,
) -> AlterationMetrics:
    """Change a column's type, comment and position in one commit.

    If `to`, `comment` or `position` is None, the column keeps its type, comment or position.
    """
    path = resolve_path(state.path, state.schema, path)
    schema = state.schema if to is None else _with_type(state, path, to)
    if comment is not None:
        _check_can_have_comment(state, path)
        schema = with_changed_field(
            state.path, schema, path, lambda f: _with_metadata(f, "comment", comment)
        )
    if position is not None:
        schema = with_changed_field(state.path, schema, path, lambda f: f, position)
    if schema == state.schema and comment is None and position is None:
        return AlterationMetrics(version=state.version, num_commits=0)
    change = _Change(engine=engine, state=state, path=path, engine_info=engine_info)
    return change.commit(schema, position=position)


def _with_type(state: TableState, path: ColumnPath, to: StructField) -> StructType:
    """Return the table's schema after a column is widened to the type of `to`.

    Raises an error if the type of `to` isn't wider, or if the table doesn't permit the change.
    """
    table = state.path
    field = field_at(table, state.schema, path)
    if field.data_type == STRING == to.data_type:
        return with_changed_field(
            table, state.schema, path, lambda f: _with_limit(table, path, f, to)
        )
    if field.data_type == to.data_type:
        return state.schema
    if field.data_type == VOID:
        check_not_referenced(state, path, f"changed to {to.data_type}")
        return with_changed_field(table, state.schema, path, lambda f: _with_type_of(f, to))
    if not is_widening(field.data_type, to.data_type):
        raise SchemaError(
            f"{table}: the type of column {quote_path(path)!r} can't be changed from "
            f"{field.data_type} to {to.data_type}, because this change isn't a type widening "
            "(DELTA_ALTER_TABLE_CHANGE_COL_NOT_SUPPORTED). Add a column of the new type, and "
            "fill it.",
            table=table,
            column=quote_path(path),
        )
    if state.properties.get("delta.enableTypeWidening", "false").strip().lower() != "true":
        raise UnsupportedFeatureError(
            f"{table}: the type of column {quote_path(path)!r} can't be changed to "
            f"{to.data_type} without type widening. Enable type widening with "
            "alter.set_table_properties({'delta.enableTypeWidening': 'true'}); all readers "
            "must then support it.",
            table=table,
            features=[features.TYPE_WIDENING],
        )
    if IDENTITY_START_KEY in field.metadata:
        raise SchemaError(
            f"{table}: the type {field.data_type} of identity column {quote_path(path)!r} can't be "
            "changed. Add a column of the new type.",
            table=table,
            column=quote_path(path),
        )
    check_not_referenced(state, path, f"changed to {to.data_type}")
    if GENERATION_EXPRESSION_KEY in field.metadata:
        raise SchemaError(
            f"{table}: the type {field.data_type} of generated column {quote_path(path)!r} can't "
            "be changed, because the column's generation expression has this type. Add a column "
            "of the new type.",
            table=table,
            column=quote_path(path),
        )
    schema = with_changed_field(table, state.schema, path, lambda f: f.with_data_type(to.data_type))
    return with_type_changes(state.schema, schema, preview_version(state))


def change_nullability(
    engine: Engine, state: TableState, path: ColumnPath, nullable: bool, *, engine_info: str
) -> AlterationMetrics:
    """Drop NOT NULL if `nullable` is true. Otherwise check all rows and set NOT NULL."""
    table = state.path
    path = resolve_path(table, state.schema, path)
    if _column_of(state.schema, path) != path:
        raise SchemaError(
            f"{table}: {quote_path(path)!r} is part of an array or map, so its nullability can't "
            "be changed. Choose a column or struct field.",
            table=table,
            column=quote_path(path),
        )
    if field_at(table, state.schema, path).nullable == nullable:
        return AlterationMetrics(version=state.version, num_commits=0)
    change = _Change(engine=engine, state=state, path=path, engine_info=engine_info)
    schema = change.edited(lambda f: replace(f, nullable=nullable))
    if nullable:
        return change.commit(schema)
    check_not_null(engine, state, schema.select([path[0]]).fields[0])
    return change.commit(schema, reads_rows=True, features_needed=(features.INVARIANTS,))


def change_default(
    engine: Engine, state: TableState, path: ColumnPath, default: str | None, *, engine_info: str
) -> AlterationMetrics:
    """Set a column's default to a SQL expression. If `default` is None, drop the default.

    Existing rows don't change.
    """
    path = resolve_path(state.path, state.schema, path)
    field = field_at(state.path, state.schema, path)
    change = _Change(engine=engine, state=state, path=path, engine_info=engine_info)
    if default is None:
        if CURRENT_DEFAULT_KEY not in field.metadata:
            return AlterationMetrics(version=state.version, num_commits=0)
        return change.commit(change.edited(lambda f: _with_metadata(f, CURRENT_DEFAULT_KEY, None)))
    if len(path) > 1 or {GENERATION_EXPRESSION_KEY, IDENTITY_START_KEY} & set(field.metadata):
        raise SchemaError(
            f"{state.path}: column {quote_path(path)!r} can't have a default, because it is "
            + ("a nested field" if len(path) > 1 else "a generated or identity column")
            + ". Choose another column.",
            table=state.path,
            column=quote_path(path),
        )
    check_default(engine, state, quote_path(path), field.data_type, default)
    return change.commit(change.edited(lambda f: _with_metadata(f, CURRENT_DEFAULT_KEY, default)))


def change_comment(
    engine: Engine, state: TableState, path: ColumnPath, comment: str | None, *, engine_info: str
) -> AlterationMetrics:
    """Set a column's comment; None removes it."""
    path = resolve_path(state.path, state.schema, path)
    _check_can_have_comment(state, path)
    change = _Change(engine=engine, state=state, path=path, engine_info=engine_info)
    return change.commit(change.edited(lambda f: _with_metadata(f, "comment", comment)))


def change_metadata(
    engine: Engine,
    state: TableState,
    path: ColumnPath,
    entries: Mapping[str, Any],
    *,
    engine_info: str,
) -> AlterationMetrics:
    """Add entries to a column's metadata; an existing entry with the same key is replaced.

    The comment can be changed. Other entries that the protocol or Spark defines can't be changed.
    """
    path = resolve_path(state.path, state.schema, path)
    _check_can_have_comment(state, path)
    for key in entries:
        if key.startswith("delta.") or key in (CURRENT_DEFAULT_KEY, CHAR_VARCHAR_KEY):
            raise SchemaError(
                f"{state.path}: metadata {key!r} of column {quote_path(path)!r} can't be set "
                "directly, because Delta or Spark reserves this key. Use the ALTER operation "
                "for this change.",
                table=state.path,
                column=quote_path(path),
            )
    change = _Change(engine=engine, state=state, path=path, engine_info=engine_info)
    return change.commit(change.edited(lambda f: replace(f, metadata={**f.metadata, **entries})))


def change_position(
    engine: Engine, state: TableState, path: ColumnPath, position: str, *, engine_info: str
) -> AlterationMetrics:
    """Move a column within the table, or a field within its struct.

    Args:
        position: name of the preceding field; empty for the first position.
    """
    path = resolve_path(state.path, state.schema, path)
    schema = with_changed_field(state.path, state.schema, path, lambda f: f, position)
    change = _Change(engine=engine, state=state, path=path, engine_info=engine_info)
    return change.commit(schema, position=position)


def _check_can_have_comment(state: TableState, path: ColumnPath) -> None:
    if _column_of(state.schema, path) != path:
        raise SchemaError(
            f"{state.path}: {quote_path(path)!r} is part of an array or map and can't have a "
            "comment. Choose a column or struct field.",
            table=state.path,
            column=quote_path(path),
        )


def _with_metadata(field: StructField, key: str, value: str | None) -> StructField:
    metadata = {k: v for k, v in field.metadata.items() if k != key}
    return replace(field, metadata=metadata if value is None else {**metadata, key: value})


def _with_type_of(field: StructField, to: StructField) -> StructField:
    """Return `field` with the type and the length limit of `to`."""
    limit = to.metadata.get(CHAR_VARCHAR_KEY)
    return _with_metadata(field.with_data_type(to.data_type), CHAR_VARCHAR_KEY, limit)


def _with_limit(table: str, path: ColumnPath, field: StructField, to: StructField) -> StructField:
    """Return `field`, a string column, with the length limit of `to`.

    Raises an error if existing values can be longer than this limit.
    """
    before = next(iter(length_limits(field)), None)
    after = next(iter(length_limits(to)), None)
    fits = after is None or (
        before is not None and before.kind == "varchar" and after.max_length >= before.max_length
    )
    if not fits or (after is not None and after.kind == "char"):
        raise SchemaError(
            f"{table}: column {quote_path(path)!r} can't be changed from {before or 'string'} to "
            f"{after}, because existing values may be longer. Use a greater length, or remove "
            "the length limit.",
            table=table,
            column=quote_path(path),
        )
    return _with_metadata(field, CHAR_VARCHAR_KEY, None if after is None else str(after))


def _column_of(schema: StructType, path: ColumnPath) -> ColumnPath:
    """Return the longest prefix of `path` that is the path of a column or struct field.

    For `a.element`, the elements of the array `a`, the result is `a`.
    """
    level: Any = schema
    column: ColumnPath = ()
    for index, step in enumerate(path):
        if isinstance(level, StructType):
            column = path[: index + 1]
            level = next(f.data_type for f in level if f.name == step)
        else:
            names = {"element": "element_type", "key": "key_type", "value": "value_type"}
            level = getattr(level, names[step])
    return column
