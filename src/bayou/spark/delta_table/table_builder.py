"""`DeltaTable.create` and its like: a table defined column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pyspark.sql import types as spark_types

from bayou.errors import ArgumentError
from bayou.kernel.commands.create_table import (
    CreationMode,
    TableDefinition,
    check_definition,
    create_table,
    generated_column,
    identity_column,
)
from bayou.protocol.property_strings import column_paths
from bayou.protocol.schema import SchemaJsonError, StructField, StructType
from bayou.protocol.type_string import field_from_text
from bayou.spark.catalog_tables import NamedTable, named_table
from bayou.spark.delta_table.result_dataframes import flag, names, text
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable, is_classic
from bayou.spark.types import from_spark
from bayou.spark.write.options import WriteOptions, with_session_defaults

__all__ = ["DeltaTableBuilder", "IdentityGenerator"]

TableT = TypeVar("TableT")


@dataclass(frozen=True)
class IdentityGenerator:
    """How an identity column counts.

    Attributes:
        start: the first value.
        step: from one to the next; not 0.
    """

    start: int = 1
    step: int = 1


class DeltaTableBuilder(Generic[TableT]):
    """A table that is being defined; each method gives the builder, `execute` makes the table.

    Args:
        opened: gives what `execute` returns.
    """

    def __init__(
        self, spark: Any, mode: CreationMode, opened: Callable[[TargetTable], TableT]
    ) -> None:
        self._spark = spark
        self._mode = mode
        self._opened = opened
        self._name: str | None = None
        self._location: str | None = None
        self._definition = TableDefinition(schema=StructType(()))

    def tableName(self, identifier: str) -> DeltaTableBuilder[TableT]:  # noqa: N802  # delta-spark's names
        """The name in the session's catalog, or ``delta.`/path` ``."""
        self._name = text(identifier, "identifier")
        return self

    def location(self, location: str) -> DeltaTableBuilder[TableT]:
        """Where the table is; without it, where the catalog puts tables."""
        self._location = text(location, "location")
        return self

    def comment(self, comment: str) -> DeltaTableBuilder[TableT]:
        """What the table is about."""
        return self._with(description=text(comment, "comment"))

    def addColumn(  # noqa: N802, PLR0917
        self,
        colName: str,  # noqa: N803
        dataType: str | spark_types.DataType,  # noqa: N803
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,  # noqa: N803
        generatedByDefaultAs: IdentityGenerator | None = None,  # noqa: N803
        comment: str | None = None,
    ) -> DeltaTableBuilder[TableT]:
        """A column.

        Args:
            colName: its name.
            dataType: SQL's name of a type, or Spark's type.
            nullable: whether it may be NULL.
            generatedAlwaysAs: SQL over other columns, of which values are made; or numbers that are
                given out.
            generatedByDefaultAs: numbers that are given out where rows bring none.
            comment: what it is about.

        Raises:
            ArgumentError: an argument of another kind.
        """
        field = self._field(text(colName, "colName"), dataType)
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise ArgumentError(
                f"Column {colName!r}: generatedByDefaultAs and generatedAlwaysAs cannot both be "
                "set.",
                argument="generatedByDefaultAs",
            )
        if isinstance(generatedAlwaysAs, str):
            field = generated_column(field, generatedAlwaysAs)
        elif generatedAlwaysAs is not None:
            field = _identity(field, generatedAlwaysAs, "generatedAlwaysAs")
        elif generatedByDefaultAs is not None:
            field = _identity(field, generatedByDefaultAs, "generatedByDefaultAs")
        if comment is not None:
            described = {**field.metadata, "comment": text(comment, "comment")}
            field = replace(field, metadata=described)
        field = replace(field, nullable=flag(nullable, "nullable"))
        return self._with(schema=StructType((*self._definition.schema, field)))

    def addColumns(  # noqa: N802
        self, cols: spark_types.StructType | Sequence[spark_types.StructField]
    ) -> DeltaTableBuilder[TableT]:
        """The columns of a schema; comments, defaults and the like by their fields' metadata."""
        fields = cols.fields if isinstance(cols, spark_types.StructType) else list(cols)
        for field in fields:
            if not isinstance(field, spark_types.StructField):
                raise ArgumentError(
                    f"Columns of an existing schema are StructFields, not {field!r}.",
                    argument="cols",
                )
        added = from_spark(spark_types.StructType(fields), table="the new table")
        return self._with(schema=StructType((*self._definition.schema, *added)))

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder[TableT]:  # noqa: N802
        """The partition columns, one by one or as one list."""
        return self._with(partition_columns=names(cols, "cols"))

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder[TableT]:  # noqa: N802
        """The clustering columns, one by one or as one list; dotted for fields of structs."""
        paths: list[tuple[str, ...]] = []
        for column in names(cols, "cols"):
            try:
                (path,) = column_paths(column)
            except ValueError as error:
                raise ArgumentError(
                    f"{column!r} isn't the name of a column.", argument="cols"
                ) from error
            paths.append(path)
        return self._with(clustering_columns=tuple(paths))

    def property(self, key: str, value: str) -> DeltaTableBuilder[TableT]:
        """A table property."""
        properties = {**self._definition.properties, text(key, "key"): text(value, "value")}
        return self._with(properties=properties)

    def define(self, definition: TableDefinition) -> DeltaTableBuilder[TableT]:
        """All of it at once, as the kernel has it."""
        self._definition = definition
        return self

    def execute(self) -> TableT:
        """Make the table.

        Raises:
            TableAlreadyExistsError, TableNotFoundError: it is there, or isn't, where it mustn't.
            ArgumentError: neither a name nor a location, or files at the place.
            SchemaError, TablePropertyError, UnsupportedFeatureError: the table can't be so.
        """
        name = None if self._name is None else self._named(self._name)
        location = self._location or (None if name is None else name.path)
        if location is None:
            raise ArgumentError(
                "A table needs a name or a place: call tableName or location "
                "(DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION).",
                argument="location",
            )
        by_path = name is None or name.is_path
        target = TargetTable(
            spark=self._spark, location=location, name=None if by_path else self._name
        )
        definition = self._complete(target, is_managed=not by_path and self._location is None)
        if name is not None and not by_path and not name.exists:
            self._make_named(target, name, definition)
        else:
            if name is not None and not by_path and self._location not in (None, name.path):
                raise ArgumentError(
                    f"{self._name} is at {name.path}, not at {self._location} "
                    "(DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH).",
                    argument="location",
                )
            self._make(target, definition, self._mode)
        return self._opened(target)

    def _make_named(
        self, target: TargetTable, name: NamedTable, definition: TableDefinition
    ) -> None:
        """A table whose name is new to the catalog; it may be at its place already."""
        if target.exists() and not self._mode.replaces:
            check_definition(target.table.latest_snapshot(target.engine), definition)
        else:
            self._make(target, definition, self._mode)
        name.register(self._spark, target.path)

    def _make(self, target: TargetTable, definition: TableDefinition, mode: CreationMode) -> None:
        create_table(target.engine, target.table, definition, mode, engine_info=SPARK_ENGINE_INFO)

    def _complete(self, target: TargetTable, *, is_managed: bool) -> TableDefinition:
        """The definition with the session's defaults for properties."""
        defaults: dict[str, str] = {}
        if is_classic(self._spark) and not target.exists():
            given = with_session_defaults(self._spark, target.location, {"path": target.location})
            defaults = dict(WriteOptions.parse(given).properties)
        return replace(
            self._definition,
            properties={**defaults, **self._definition.properties},
            is_managed=is_managed,
        )

    def _named(self, name: str) -> NamedTable:
        if not is_classic(self._spark):
            raise ArgumentError(
                f"Under Spark Connect the place of {name} can't be seen: give location and leave "
                "tableName out.",
                argument="identifier",
            )
        found = named_table(self._spark, name)
        if found is None:
            raise ArgumentError(
                f"{name} stands for a view, or for a table of another format.",
                argument="identifier",
            )
        if found.is_path and self._location not in (None, found.path):
            raise ArgumentError(
                f"{name} and the location {self._location} are two places "
                "(DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH).",
                argument="location",
            )
        return found

    def _field(self, name: str, kind: str | spark_types.DataType) -> StructField:
        if isinstance(kind, spark_types.DataType):
            schema = spark_types.StructType([spark_types.StructField(name, kind)])
            return from_spark(schema, table="the new table").fields[0]
        try:
            return field_from_text(name, text(kind, "dataType"))
        except SchemaJsonError as error:
            raise ArgumentError(f"Column {name!r}: {error}.", argument="dataType") from error

    def _with(self, **changes: Any) -> DeltaTableBuilder[TableT]:
        self._definition = replace(self._definition, **changes)
        return self


def _identity(column: StructField, generator: IdentityGenerator, argument: str) -> StructField:
    given: object = generator
    if not isinstance(given, IdentityGenerator):
        raise ArgumentError(
            f"Column {column.name!r} is generated as {given!r}; give an IdentityGenerator, or SQL "
            "text to generatedAlwaysAs.",
            argument=argument,
        )
    return identity_column(
        column,
        start=generator.start,
        step=generator.step,
        allow_explicit=argument == "generatedByDefaultAs",
    )
