"""ALTER TABLE: change a table's schema, properties, constraints and features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.api.argument_checks import (
    BoundTable,
    checked_json,
    checked_names,
    checked_number,
    checked_string,
    checked_strings,
)
from bayou.errors import ArgumentError
from bayou.kernel import Snapshot
from bayou.kernel.arrow.types import from_arrow_schema, from_arrow_type
from bayou.kernel.commands.alter.change_column import (
    change_comment,
    change_default,
    change_metadata,
    change_nullability,
    change_position,
    change_type,
)
from bayou.kernel.commands.alter.cluster_by import cluster_by
from bayou.kernel.commands.alter.columns import (
    NewColumn,
    add_columns,
    drop_columns,
    rename_column,
)
from bayou.kernel.commands.alter.constraints import add_constraint, drop_constraint
from bayou.kernel.commands.alter.drop_feature import drop_feature
from bayou.kernel.commands.alter.properties import (
    set_name,
    set_properties,
    unset_properties,
)
from bayou.kernel.commands.alter.protocol import add_feature, upgrade_protocol
from bayou.kernel.commands.alter.sync_identity import sync_identity
from bayou.protocol.property_strings import column_path
from bayou.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    SchemaJsonError,
    StructField,
    StructType,
)
from bayou.protocol.sql import parse_field
from bayou.version import ENGINE_INFO

ColumnName: TypeAlias = str | Sequence[str]
"""A column name, or the path of a nested field: `"address.city"` or `("address", "city")`. In a
path, `element` stands for the elements of an array, `key` and `value` for the keys and values of a
map. Put backticks around a name that contains a dot."""

ColumnType: TypeAlias = str | pa.DataType | DataType
"""The type of a column: SQL such as `"bigint"` or `"array<struct<a: int>>"`, an Arrow type, or a
type of `bayou.protocol.schema`."""

NewColumns: TypeAlias = Mapping[str, ColumnType] | pa.Schema | StructField | Any
"""Columns to add: types by column name; an Arrow schema; or one or more fields, which are Arrow
fields or fields of `bayou.protocol.schema`."""


class TableAlterer(BoundTable):
    """Changes of a table's schema, properties, constraints and features.

    `TableHandle.alter` returns this object. Each method returns the committed version, or the
    latest version if there is nothing to change. See `ColumnName` for the names of nested columns.
    Concurrent appends don't conflict. A concurrent metadata change raises `MetadataChangedError`;
    in this case, repeat the call.

    Examples:
        >>> alter = bayou.table("lake/orders").alter
        >>> alter.add_column("note", "string", comment="from the customer")
        >>> alter.set_table_properties({"delta.appendOnly": "false"})
    """

    __slots__ = ()

    def add_columns(self, fields: NewColumns) -> int:
        """Add nullable columns at the end of the table, or nullable fields at the end of a struct.

        Args:
            fields: types by column name; or an Arrow schema, Arrow fields, or fields of
                `bayou.protocol.schema`.

        Raises:
            SchemaError: a name already exists or is invalid, or the struct of a nested field
                doesn't exist.

        Examples:
            >>> bayou.table("lake/orders").alter.add_columns({"note": "string"})
        """
        new = [NewColumn(path=path, field=field) for path, field in _new_fields(fields)]
        if not new:
            raise ArgumentError("fields: the argument is empty. Pass a column.", argument="fields")
        return add_columns(self._engine, self._latest(), new, engine_info=ENGINE_INFO).version

    def add_column(
        self,
        name: ColumnName,
        type: ColumnType,
        *,
        comment: str | None = None,
        default: str | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> int:
        """Add a nullable column, which is NULL in existing rows.

        Args:
            comment: description of the column.
            default: SQL expression for new rows that don't provide the column. The table needs the
                feature `allowColumnDefaults`.
            first: whether to add the column before all others; by default, it is added at the end.
            after: name of the existing column after which to add the column. For a struct field,
                `first` and `after` refer to the fields of the same struct.

        Raises:
            SchemaError: the name already exists or is invalid, the struct of a nested field doesn't
                exist, or the column in `after` doesn't exist.
            UnsupportedFeatureError: `default` is set, but the table lacks the feature.
        """
        column = NewColumn(
            path=_path(name),
            field=new_field(name, type),
            comment=None if comment is None else checked_string(comment, "comment"),
            default=None if default is None else checked_string(default, "default"),
            position=_position(first, after),
        )
        return add_columns(self._engine, self._latest(), [column], engine_info=ENGINE_INFO).version

    def drop_columns(self, *names: ColumnName) -> int:
        """Drop columns without rewriting files. Older versions keep the columns.

        Raises:
            SchemaError: a column doesn't exist. Or the table needs the column: it is a partition or
                clustering column, a constraint or generated column uses it, or it is the last
                column of the table or the last field of its struct.
            UnsupportedFeatureError: the table has no column mapping; the message says how to
                enable it.
        """
        if not names:
            raise ArgumentError("names: the argument is empty. Pass a column.", argument="names")
        paths = [_path(name) for name in names]
        return drop_columns(self._engine, self._latest(), paths, engine_info=ENGINE_INFO).version

    def drop_column(self, name: ColumnName) -> int:
        """Drop a column; see `drop_columns`."""
        return self.drop_columns(name)

    def rename_column(self, name: ColumnName, to: str) -> int:
        """Rename a column without rewriting files.

        Args:
            to: the new name, without the path of the struct.

        Raises:
            SchemaError: the column doesn't exist, the new name already exists, or a constraint or
                generated column uses the column.
            UnsupportedFeatureError: the table has no column mapping; the message says how to
                enable it.
        """
        if not checked_string(to, "to"):
            raise ArgumentError("to: the new name is empty. Give a column name.", argument="to")
        return rename_column(
            self._engine, self._latest(), _path(name), to, engine_info=ENGINE_INFO
        ).version

    def change_type(self, name: ColumnName, type: ColumnType) -> int:
        """Widen a column's type without rewriting files (PROTOCOL.md, Type Widening).

        Raises:
            SchemaError: the new type isn't wider than the old type, or a constraint or generated
                column uses the column.
            UnsupportedFeatureError: the table has no type widening; the message says how to
                enable it.
        """
        return change_type(
            self._engine,
            self._latest(),
            _path(name),
            new_field(name, type),
            engine_info=ENGINE_INFO,
        ).version

    def set_column_not_null(self, name: ColumnName) -> int:
        """Make a column or struct field NOT NULL. All rows are checked.

        Raises:
            ConstraintViolationError: a row has a null in the column.
        """
        return change_nullability(
            self._engine, self._latest(), _path(name), False, engine_info=ENGINE_INFO
        ).version

    def drop_column_not_null(self, name: ColumnName) -> int:
        """Make a column nullable."""
        return change_nullability(
            self._engine, self._latest(), _path(name), True, engine_info=ENGINE_INFO
        ).version

    def set_default(self, name: ColumnName, default: str) -> int:
        """Set a column's default for new rows; existing rows don't change.

        Args:
            default: SQL expression without columns, such as `"0"`, `"'new'"` or
                `"current_timestamp()"`.

        Raises:
            SchemaError: the expression can't be a default of the column.
            UnsupportedFeatureError: the table lacks the feature allowColumnDefaults.
        """
        return change_default(
            self._engine,
            self._latest(),
            _path(name),
            checked_string(default, "default"),
            engine_info=ENGINE_INFO,
        ).version

    def drop_default(self, name: ColumnName) -> int:
        """Remove a column's default."""
        return change_default(
            self._engine, self._latest(), _path(name), None, engine_info=ENGINE_INFO
        ).version

    def set_comment(self, name: ColumnName, comment: str | None) -> int:
        """Set a column's comment; None removes it.

        To set the table's comment, call `set_table_description`.
        """
        if comment is not None:
            checked_string(comment, "comment")
        return change_comment(
            self._engine, self._latest(), _path(name), comment, engine_info=ENGINE_INFO
        ).version

    def set_column_metadata(self, column: ColumnName, metadata: Mapping[str, Any]) -> int:
        """Add or replace entries of a column's metadata.

        Args:
            metadata: JSON values by key, such as `{"comment": "the key"}`.

        Raises:
            SchemaError: the column doesn't exist, or Delta or Spark reserves a key. All keys that
                start with `delta.` are reserved.

        Examples:
            >>> bayou.table("lake/orders").alter.set_column_metadata("id", {"owner": "sales"})
        """
        return change_metadata(
            self._engine,
            self._latest(),
            _path(column),
            checked_json(metadata, "metadata"),
            engine_info=ENGINE_INFO,
        ).version

    def sync_identity(self, name: ColumnName) -> int:
        """Advance an identity column's high water mark past the values in the table.

        Raises:
            SchemaError: the column isn't an identity column.
        """
        return sync_identity(
            self._engine, self._latest(), _path(name), engine_info=ENGINE_INFO
        ).version

    def move_column(
        self, name: ColumnName, *, first: bool = False, after: str | None = None
    ) -> int:
        """Move a column within the table, or a field within its struct.

        Set either `first` or `after`.

        Args:
            first: whether to move the column before all others.
            after: name of the column after which to move the column.
        """
        position = _position(first, after)
        if position is None:
            raise ArgumentError(
                "after: no position is set. Give first=True or after='a column'.",
                argument="after",
            )
        return change_position(
            self._engine, self._latest(), _path(name), position, engine_info=ENGINE_INFO
        ).version

    def add_constraint(self, constraints: Mapping[str, str]) -> int:
        """Add named CHECK constraints: SQL conditions that all rows must satisfy.

        All existing rows are checked. Each constraint is added by its own commit.

        Args:
            constraints: SQL conditions by constraint name.

        Raises:
            PredicateError: a condition is invalid, or uses a column that doesn't exist.
            TablePropertyError: a constraint with this name already exists.
            ConstraintViolationError: a row violates a constraint; the message shows the row.

        Examples:
            >>> bayou.table("lake/orders").alter.add_constraint({"positive_price": "price > 0"})
        """
        checked = checked_strings(constraints, "constraints")
        if not checked:
            raise ArgumentError(
                "constraints: the argument is empty. Pass a constraint.", argument="constraints"
            )
        return [
            add_constraint(
                self._engine, self._latest(), name, condition, engine_info=ENGINE_INFO
            ).version
            for name, condition in checked.items()
        ][-1]

    def drop_constraint(self, name: str, raise_if_not_exists: bool = True) -> int:
        """Drop a CHECK constraint.

        Raises:
            TablePropertyError: the constraint doesn't exist and `raise_if_not_exists` is true.

        Examples:
            >>> bayou.table("lake/orders").alter.drop_constraint("positive_price", False)
        """
        checked_string(name, "name")
        return drop_constraint(
            self._engine,
            self._latest(),
            name,
            if_exists=not raise_if_not_exists,
            engine_info=ENGINE_INFO,
        ).version

    def set_table_properties(self, properties: Mapping[str, str]) -> int:
        """Set table properties.

        The key `comment` isn't stored as a property: it sets the description in the table's
        metadata. A property that enables a table feature also upgrades the protocol. If a property
        enables row tracking, separate commits first assign row ids to all files.

        Raises:
            TablePropertyError: a `delta.` property is unknown, has an invalid value, or can only be
                changed by another method; the message names the method.
            UnsupportedFeatureError: a property enables a feature that isn't supported.
        """
        checked = checked_strings(properties, "properties")
        if not checked:
            raise ArgumentError(
                "properties: the argument is empty. Pass a property.", argument="properties"
            )
        return set_properties(
            self._engine, self._latest(), checked, engine_info=ENGINE_INFO
        ).version

    def unset_table_properties(self, *keys: str, raise_if_not_exists: bool = True) -> int:
        """Remove table properties; their defaults then apply. The protocol doesn't change.

        Raises:
            TablePropertyError: a property isn't set and `raise_if_not_exists` is true.
        """
        if not keys:
            raise ArgumentError("keys: the argument is empty. Pass a property.", argument="keys")
        for key in keys:
            checked_string(key, "keys")
        return unset_properties(
            self._engine,
            self._latest(),
            keys,
            if_exists=not raise_if_not_exists,
            engine_info=ENGINE_INFO,
        ).version

    def set_table_name(self, name: str) -> int:
        """Set the table's name in its metadata; "" removes the name.

        Examples:
            >>> bayou.table("lake/orders").alter.set_table_name("orders")
        """
        return set_name(
            self._engine, self._latest(), checked_string(name, "name"), engine_info=ENGINE_INFO
        ).version

    def set_table_description(self, description: str) -> int:
        """Set the table's description in its metadata; "" removes the description.

        Examples:
            >>> bayou.table("lake/orders").alter.set_table_description("One row for each order")
        """
        return self.set_table_properties({"comment": checked_string(description, "description")})

    def cluster_by(self, *columns: ColumnName) -> int:
        """Set the table's clustering columns, at most four.

        Existing files don't change until the next `optimize`. A call without columns turns
        clustering off.

        Raises:
            SchemaError: the table is partitioned; or a column doesn't exist, has no statistics, or
                has a type that can't be clustered.
        """
        paths = [_path(column) for column in columns]
        return cluster_by(self._engine, self._latest(), paths, engine_info=ENGINE_INFO).version

    def add_feature(self, feature: str | Sequence[str]) -> int:
        """Add table features to the protocol, such as `allowColumnDefaults`.

        If a feature requires higher protocol versions, the protocol is also upgraded. Each feature
        is added by its own commit.

        Raises:
            UnsupportedFeatureError: a feature is unknown, or Bayou can't write it.

        Examples:
            >>> bayou.table("lake/orders").alter.add_feature("allowColumnDefaults")
        """
        names = (feature,) if isinstance(feature, str) else checked_names(feature, "feature")
        if not names:
            raise ArgumentError(
                "feature: the argument is empty. Pass a feature.", argument="feature"
            )
        return [
            add_feature(self._engine, self._latest(), name, engine_info=ENGINE_INFO).version
            for name in names
        ][-1]

    def drop_feature(self, name: str, *, truncate_history: bool = False) -> int:
        """Remove a feature and its traces from the table, in one or more commits.

        Some features, such as `deletionVectors`, are still needed to read older versions. If the
        feature is one of these, the command also adds the feature `checkpointProtection`, which
        restricts how writers clean up the older versions.

        Args:
            truncate_history: whether to delete versions older than 24 hours. The command then
                doesn't add `checkpointProtection`. If a younger version uses the feature, the
                command raises an error. Repeat the call when that version is 24 hours old. True
                is only valid for features that are needed to read older versions, and for
                `checkpointProtection`.

        Raises:
            UnsupportedFeatureError: the table lacks the feature, or the feature can't be dropped.
            FeatureInUseError: the feature can't be dropped yet; the message says why. For example,
                another feature requires it, or `truncate_history` isn't valid for the feature.
        """
        checked_string(name, "name")
        return drop_feature(
            self._engine,
            self._latest(),
            name,
            truncate_history=truncate_history,
            engine_info=ENGINE_INFO,
        ).version

    def upgrade_protocol(self, reader: int, writer: int) -> int:
        """Upgrade the protocol's reader and writer versions.

        Protocols with writer version 7 list the table's features by name. Lower versions imply a
        fixed set of features. An upgrade to version 7 adds these features to the list.

        Raises:
            ArgumentError: a version doesn't exist, or is lower than the table's version.
        """
        checked_number(reader, "reader", "a protocol version", minimum=1)
        checked_number(writer, "writer", "a protocol version", minimum=1)
        return upgrade_protocol(
            self._engine, self._latest(), reader, writer, engine_info=ENGINE_INFO
        ).version

    def _latest(self) -> Snapshot:
        return self._table.latest_snapshot(self._engine)


def _path(name: ColumnName) -> tuple[str, ...]:
    if not isinstance(name, str):
        return checked_names(name, "name") or ()
    try:
        return column_path(name)
    except ValueError:
        raise ArgumentError(
            f"name: {name!r} isn't a column name. Give a name such as 'city', 'address.city', or "
            "'`a.b`' if the name has a dot.",
            argument="name",
        ) from None


def new_field(name: ColumnName, type: ColumnType) -> StructField:
    """Return a nullable field. If `name` is a path such as `address.city`, the field is `city`."""
    last = _path(name)[-1]
    match type:
        case str():
            try:
                return parse_field(last, type)
            except SchemaJsonError as error:
                raise ArgumentError(f"type: {error}.", argument="type") from error
        case pa.DataType():
            return StructField(name=last, data_type=from_arrow_type(type, column=last))
        case PrimitiveType() | DecimalType() | ArrayType() | MapType() | StructType():
            return StructField(name=last, data_type=type)
        case _:
            raise ArgumentError(
                f"type: {type!r} isn't a type. Give a type such as 'bigint' or pyarrow.int64().",
                argument="type",
            )


def _new_fields(fields: object) -> Iterator[tuple[tuple[str, ...], StructField]]:
    if isinstance(fields, Mapping):
        for name, column_type in fields.items():
            yield _path(name), new_field(name, column_type)
        return
    for field in [fields] if isinstance(fields, pa.Field | StructField) else _each(fields):
        if isinstance(field, StructField):
            yield (field.name,), field
        elif isinstance(field, pa.Field):
            yield (field.name,), from_arrow_schema(pa.schema([field])).fields[0]
        else:
            raise _not_columns(field)


def _each(fields: object) -> Iterable[object]:
    if isinstance(fields, pa.Schema | list | tuple):
        return list(fields)
    raise _not_columns(fields)


def _not_columns(value: object) -> ArgumentError:
    return ArgumentError(
        f"fields: {value!r} isn't a column. Give types by name, such as {{'note': 'string'}}, or "
        "Arrow fields.",
        argument="fields",
    )


def _position(first: bool, after: str | None) -> str | None:
    if first and after is not None:
        raise ArgumentError(
            "after: the arguments 'first' and 'after' are both set. Give one of them.",
            argument="after",
        )
    if after == "":
        raise ArgumentError("after: the argument is empty. Give a column name.", argument="after")
    return "" if first else after
