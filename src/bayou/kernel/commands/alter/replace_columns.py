"""REPLACE COLUMNS: a new list of columns for a table, without rewriting its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bayou.errors import SchemaError
from bayou.kernel.commands.alter.alteration import (
    Alteration,
    AlterationMetrics,
    as_json,
    with_schema,
)
from bayou.kernel.commands.alter.columns import column_description
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.column_dependencies import (
    ColumnPath,
    check_not_in_layout,
    check_not_referenced,
    quote_path,
)
from bayou.kernel.transaction.metadata_update import preview_version
from bayou.kernel.transaction.schema_evolution import check_names
from bayou.protocol.column_metadata import CHAR_VARCHAR_KEY, identity_columns
from bayou.protocol.properties import TYPE_WIDENING
from bayou.protocol.schema import VOID, ArrayType, DataType, MapType, StructField, StructType
from bayou.protocol.type_widening import is_widening, with_type_changes


def replace_columns(
    engine: Engine, state: TableState, columns: Sequence[StructField], *, engine_info: str
) -> AlterationMetrics:
    """Replace a table's columns by the columns in `columns`.

    Columns are matched by name. Existing columns keep their data; they may be reordered, get a
    different comment, and become nullable. New columns must be nullable. If column mapping is
    enabled, existing columns that aren't in `columns` are dropped. If type widening is enabled,
    types may become wider. A column of type void may get any type. The same rules apply to struct
    fields.

    Raises:
        SchemaError: a change isn't possible. The command also can't drop columns and add others at
            the same time, because the user may have meant to rename them.
    """
    if identity_columns(state.schema):
        raise SchemaError(
            f"{state.path}: REPLACE COLUMNS isn't supported for a table with identity columns "
            "(DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED). Use ADD, DROP and ALTER "
            "COLUMN.",
            table=state.path,
        )
    change = _Replacement(state)
    schema = change.struct(state.schema, StructType(tuple(columns)), ())
    check_names(state.path, schema, mapped=state.column_mapping != "none")
    for path in change.dropped:
        check_not_in_layout(state, path, "dropped")
        check_not_referenced(state, path, "dropped")
    for path in change.retyped:
        check_not_referenced(state, path, "changed to another type")
    if change.retyped:
        schema = with_type_changes(state.schema, schema, preview_version(state))
    described = [column_description((column.name,), column) for column in columns]
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.REPLACE_COLUMNS,
        parameters={"columns": as_json(described)},
    )
    return alteration.commit(lambda builder: builder.with_metadata(with_schema(state, schema)))


@dataclass(frozen=True, slots=True)
class _Replacement:
    """Merges the requested columns into the existing columns, and collects the changes.

    Attributes:
        dropped: paths of existing columns and fields that the request doesn't contain.
        retyped: paths of columns and fields whose type changes.
    """

    state: TableState
    dropped: list[ColumnPath] = field(default_factory=list)
    retyped: list[ColumnPath] = field(default_factory=list)

    def struct(self, old: StructType, new: StructType, path: ColumnPath) -> StructType:
        existing = {f.name.lower(): f for f in old}
        fields, added = [], []
        for column in new:
            before = existing.pop(column.name.lower(), None)
            here = (*path, column.name if before is None else before.name)
            if before is None:
                added.append(column.name)
                if not column.nullable:
                    raise self._refused(f"NOT NULL column {quote_path(here)} would be added", here)
                fields.append(column)
            else:
                fields.append(self._field(before, column, here))
        removed = [(*path, f.name) for f in existing.values()]
        if removed and added:
            names = ", ".join(map(quote_path, removed))
            raise self._refused(
                f"dropping {names} and adding {', '.join(added)} in one statement is ambiguous, "
                "because it could be a rename",
                removed[0],
            )
        if removed and self.state.column_mapping == "none":
            names = ", ".join(map(quote_path, removed))
            raise self._refused(f"{names} would be dropped without column mapping", removed[0])
        self.dropped.extend(removed)
        return StructType(tuple(fields))

    def _field(self, old: StructField, new: StructField, path: ColumnPath) -> StructField:
        if old.nullable and not new.nullable:
            raise self._refused(f"{quote_path(path)} would become NOT NULL", path)
        limit = new.metadata.get(CHAR_VARCHAR_KEY)
        if old.data_type != VOID and old.metadata.get(CHAR_VARCHAR_KEY) != limit:
            raise self._refused(f"the length of {quote_path(path)} would change", path)
        comment = new.metadata.get("comment")
        changed = {"comment": comment, CHAR_VARCHAR_KEY: limit}
        metadata = {**old.metadata, **{k: v for k, v in changed.items() if v is not None}}
        data_type = self._type(old.data_type, new.data_type, path)
        return replace(old, nullable=new.nullable, data_type=data_type, metadata=metadata)

    def _type(self, old: DataType, new: DataType, path: ColumnPath) -> DataType:
        match old, new:
            case StructType(), StructType():
                return self.struct(old, new, path)
            case ArrayType(), ArrayType():
                element = self._type(old.element_type, new.element_type, (*path, "element"))
                return replace(new, element_type=element)
            case MapType(), MapType():
                key = self._type(old.key_type, new.key_type, (*path, "key"))
                value = self._type(old.value_type, new.value_type, (*path, "value"))
                return replace(new, key_type=key, value_type=value)
        if old == new:
            return old
        widens = TYPE_WIDENING.read(self.state.properties) and is_widening(old, new)
        if not widens and old != VOID:
            raise self._refused(f"{quote_path(path)} would change from {old} to {new}", path)
        self.retyped.append(path)
        return new

    def _refused(self, reason: str, path: ColumnPath) -> SchemaError:
        return SchemaError(
            f"{self.state.path}: REPLACE COLUMNS isn't possible: {reason} "
            "(DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP). List the table's columns with their "
            "types, or use ADD, DROP and RENAME COLUMN.",
            table=self.state.path,
            column=quote_path(path),
        )
