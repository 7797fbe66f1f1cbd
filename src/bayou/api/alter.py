"""A table's schema, properties, constraints and features changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from bayou.api.argument_checks import (
    BoundTable,
    checked_names,
    checked_number,
    checked_text,
    checked_texts,
)
from bayou.errors import ArgumentError
from bayou.kernel import Snapshot
from bayou.kernel.arrow.types import from_arrow_type
from bayou.kernel.commands.alter.change_column import (
    change_comment,
    change_default,
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
from bayou.kernel.commands.alter.properties import set_properties, unset_properties
from bayou.kernel.commands.alter.protocol import add_feature, upgrade_protocol
from bayou.kernel.commands.alter.sync_identity import sync_identity
from bayou.protocol.property_strings import column_paths
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
from bayou.protocol.type_string import field_from_text
from bayou.version import ENGINE_INFO

__all__ = ["Alter", "Alterations", "ColumnName", "ColumnType"]

ColumnName: TypeAlias = str | Sequence[str]
"""A column; of a field in a struct its path, `"address.city"` or `("address", "city")`. The inside
of an array is `element`, of a map `key` and `value`; a name with a dot stands in backticks."""

ColumnType: TypeAlias = str | pa.DataType | DataType
"""`"bigint"`, `"decimal(10,2)"`, `"array<struct<a: int>>"`, `"varchar(10)"`, an Arrow type, or a
type of `bayou.protocol.schema`."""


class Alterations(BoundTable):
    """What changes a table's metadata and protocol."""

    __slots__ = ()

    @property
    def alter(self) -> Alter:
        """ALTER TABLE: each method is a commit, and gives the table's version then."""
        return Alter(self._engine, self._table)


class Alter(BoundTable):
    """Changes of a table's schema, properties, constraints and features.

    Each method reads the latest version, checks, and commits; its result is the version that it
    made, or the latest one where nothing was to be done. A column is named as in `ColumnName`.
    Another writer's append doesn't get in the way; its change of the metadata is a
    `MetadataChangedError`, after which the call can be repeated.
    """

    __slots__ = ()

    def add_columns(self, columns: Mapping[str, ColumnType]) -> int:
        """Add columns, nullable, each at the end of the table or of its struct.

        Args:
            columns: types by names.

        Raises:
            SchemaError: a name that is there already or can't be one, an unknown struct.
        """
        if not columns:
            raise ArgumentError("No column is named.", argument="columns")
        new = [NewColumn(path=_path(n), field=_field(n, kind)) for n, kind in columns.items()]
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
        """Add a column, nullable; rows that are there have nulls in it.

        Args:
            comment: free text.
            default: SQL of the value for rows written from now on without the column; the table
                needs the feature allowColumnDefaults.
            first, after: its place in the table or its struct; neither: last.

        Raises:
            SchemaError: a name that is there already or can't be one, an unknown struct or
                neighbour.
            UnsupportedFeatureError: a default, in a table without the feature.
        """
        column = NewColumn(
            path=_path(name),
            field=_field(name, type),
            comment=None if comment is None else checked_text(comment, "comment"),
            default=None if default is None else checked_text(default, "default"),
            position=_position(first, after),
        )
        return add_columns(self._engine, self._latest(), [column], engine_info=ENGINE_INFO).version

    def drop_columns(self, *names: ColumnName) -> int:
        """Drop columns. Files stay as they are: older versions still have the columns.

        Raises:
            SchemaError: an unknown column, the last one, or one that partitions or clusters the
                table, or that a constraint or a generated column uses.
            UnsupportedFeatureError: the table has no column mapping; the message says how to turn
                it on.
        """
        if not names:
            raise ArgumentError("No column is named.", argument="names")
        paths = [_path(name) for name in names]
        return drop_columns(self._engine, self._latest(), paths, engine_info=ENGINE_INFO).version

    def drop_column(self, name: ColumnName) -> int:
        """`drop_columns` of one."""
        return self.drop_columns(name)

    def rename_column(self, name: ColumnName, to: str) -> int:
        """Give a column another name, in place; files stay as they are.

        Args:
            to: the new name, without the path of the struct.

        Raises:
            SchemaError: an unknown column, a name that is taken, or a constraint or generated
                column that uses the column.
            UnsupportedFeatureError: the table has no column mapping; the message says how to turn
                it on.
        """
        if not checked_text(to, "to"):
            raise ArgumentError(f"A column can't be named {to!r}.", argument="to")
        return rename_column(
            self._engine, self._latest(), _path(name), to, engine_info=ENGINE_INFO
        ).version

    def change_type(self, name: ColumnName, type: ColumnType) -> int:
        """Give a column a wider type (PROTOCOL.md, Type Widening); files stay as they are.

        Raises:
            SchemaError: that isn't a widening, or a constraint or generated column uses the column.
            UnsupportedFeatureError: the table has no type widening; the message says how to turn
                it on.
        """
        return change_type(
            self._engine,
            self._latest(),
            _path(name),
            _field(name, type),
            engine_info=ENGINE_INFO,
        ).version

    def set_not_null(self, name: ColumnName) -> int:
        """Forbid nulls in a column, or in a field of a struct; all rows are checked.

        Raises:
            ConstraintViolationError: a row has a null there.
        """
        return change_nullability(
            self._engine, self._latest(), _path(name), False, engine_info=ENGINE_INFO
        ).version

    def drop_not_null(self, name: ColumnName) -> int:
        """Allow nulls in a column."""
        return change_nullability(
            self._engine, self._latest(), _path(name), True, engine_info=ENGINE_INFO
        ).version

    def set_default(self, name: ColumnName, default: str) -> int:
        """Set the value for rows that come without a column; rows that are there stay.

        Args:
            default: SQL that names no column: `"0"`, `"'new'"`, `"current_timestamp()"`.

        Raises:
            SchemaError: the text can't be a default of that column.
            UnsupportedFeatureError: the table lacks the feature allowColumnDefaults.
        """
        return change_default(
            self._engine,
            self._latest(),
            _path(name),
            checked_text(default, "default"),
            engine_info=ENGINE_INFO,
        ).version

    def drop_default(self, name: ColumnName) -> int:
        """Take a column's default away."""
        return change_default(
            self._engine, self._latest(), _path(name), None, engine_info=ENGINE_INFO
        ).version

    def set_comment(self, name: ColumnName, comment: str | None) -> int:
        """Describe a column; None takes its comment away.

        The table's own description is the property `comment`.
        """
        if comment is not None:
            checked_text(comment, "comment")
        return change_comment(
            self._engine, self._latest(), _path(name), comment, engine_info=ENGINE_INFO
        ).version

    def sync_identity(self, name: ColumnName) -> int:
        """Let the next value of an identity column lie behind those that rows have.

        Raises:
            SchemaError: it isn't an identity column.
        """
        return sync_identity(
            self._engine, self._latest(), _path(name), engine_info=ENGINE_INFO
        ).version

    def move_column(
        self, name: ColumnName, *, first: bool = False, after: str | None = None
    ) -> int:
        """Move a column within the table, or a field within its struct."""
        position = _position(first, after)
        if position is None:
            raise ArgumentError("Give first=True, or after='a column'.", argument="after")
        return change_position(
            self._engine, self._latest(), _path(name), position, engine_info=ENGINE_INFO
        ).version

    def add_constraint(self, name: str, condition: str) -> int:
        """Add a CHECK constraint: SQL that must be true of every row. All rows are checked.

        Raises:
            PredicateError: the text isn't a condition over the table's columns.
            TablePropertyError: there is a constraint of that name.
            ConstraintViolationError: a row breaks it; the message shows its values.
        """
        return add_constraint(
            self._engine,
            self._latest(),
            checked_text(name, "name"),
            checked_text(condition, "condition"),
            engine_info=ENGINE_INFO,
        ).version

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> int:
        """Drop a CHECK constraint.

        Raises:
            TablePropertyError: there is none of that name, without `if_exists`.
        """
        checked_text(name, "name")
        return drop_constraint(
            self._engine, self._latest(), name, if_exists=if_exists, engine_info=ENGINE_INFO
        ).version

    def set_properties(self, properties: Mapping[str, str]) -> int:
        """Set table properties; `comment` is the table's description.

        Properties that turn a feature on raise the protocol for it. Turning row tracking on gives
        ids to all files first, in commits of their own.

        Raises:
            TablePropertyError: an unknown `delta.` property, an unusable value, or what takes more
                than a property.
            UnsupportedFeatureError: it asks for a feature that isn't supported.
        """
        checked = checked_texts(properties, "properties")
        if not checked:
            raise ArgumentError("No property is named.", argument="properties")
        return set_properties(
            self._engine, self._latest(), checked, engine_info=ENGINE_INFO
        ).version

    def unset_properties(self, *keys: str, if_exists: bool = False) -> int:
        """Take properties away, so that their defaults hold; the protocol stays as it is.

        Raises:
            TablePropertyError: the table doesn't have one, without `if_exists`.
        """
        if not keys:
            raise ArgumentError("No property is named.", argument="keys")
        for key in keys:
            checked_text(key, "keys")
        return unset_properties(
            self._engine, self._latest(), keys, if_exists=if_exists, engine_info=ENGINE_INFO
        ).version

    def cluster_by(self, *columns: ColumnName) -> int:
        """Cluster the table by up to four columns, from the next `optimize` on; none: no longer.

        Raises:
            SchemaError: an unknown column, one whose type or statistics don't allow it, or a
                partitioned table.
        """
        paths = [_path(column) for column in columns]
        return cluster_by(self._engine, self._latest(), paths, engine_info=ENGINE_INFO).version

    def add_feature(self, name: str) -> int:
        """Let the protocol name a table feature, such as `allowColumnDefaults`.

        Raises:
            UnsupportedFeatureError: it isn't one, or can't be written.
        """
        checked_text(name, "name")
        return add_feature(self._engine, self._latest(), name, engine_info=ENGINE_INFO).version

    def drop_feature(self, name: str, *, truncate_history: bool = False) -> int:
        """Take a feature and its traces out of the table, in as many commits as that takes.

        Where older versions use a feature that readers must know, the table is given
        `checkpointProtection`: readers without the feature then never see those versions.

        Args:
            truncate_history: delete the older versions instead, those of more than 24 hours ago;
                it takes two calls, with that time between them.

        Raises:
            UnsupportedFeatureError: the table doesn't have it, or it can't be dropped.
            FeatureInUseError: another feature or something of the table needs it, or older
                versions aren't old enough to be deleted.
        """
        checked_text(name, "name")
        return drop_feature(
            self._engine,
            self._latest(),
            name,
            truncate_history=truncate_history,
            engine_info=ENGINE_INFO,
        ).version

    def upgrade_protocol(self, reader: int, writer: int) -> int:
        """Raise the protocol's versions; from (3, 7) on features are listed.

        Raises:
            ArgumentError: versions that don't exist, or below those of the table.
        """
        checked_number(reader, "reader", "a version of the protocol", least=1)
        checked_number(writer, "writer", "a version of the protocol", least=1)
        return upgrade_protocol(
            self._engine, self._latest(), reader, writer, engine_info=ENGINE_INFO
        ).version

    def _latest(self) -> Snapshot:
        return self._table.latest_snapshot(self._engine)


def _path(name: ColumnName) -> tuple[str, ...]:
    if not isinstance(name, str):
        return checked_names(name, "name") or ()
    try:
        paths = column_paths(name)
    except ValueError:
        paths = ()
    if len(paths) != 1:
        raise ArgumentError(
            f"{name!r} isn't the name of a column: give one such as 'city', 'address.city', or, "
            "where a name has a dot, '`a.b`'.",
            argument="name",
        )
    return paths[0]


def _field(name: ColumnName, type: ColumnType) -> StructField:
    last = _path(name)[-1]
    match type:
        case str():
            try:
                return field_from_text(last, type)
            except SchemaJsonError as error:
                raise ArgumentError(f"{error}.", argument="type") from error
        case pa.DataType():
            return StructField(name=last, data_type=from_arrow_type(type, column=last))
        case PrimitiveType() | DecimalType() | ArrayType() | MapType() | StructType():
            return StructField(name=last, data_type=type)
        case _:
            raise ArgumentError(
                f"{type!r} isn't a type: give one such as 'bigint', or pyarrow.int64().",
                argument="type",
            )


def _position(first: bool, after: str | None) -> str | None:
    if first and after is not None:
        raise ArgumentError("Give first or after, not both.", argument="after")
    if after == "":
        raise ArgumentError("after names a column.", argument="after")
    return "" if first else after
