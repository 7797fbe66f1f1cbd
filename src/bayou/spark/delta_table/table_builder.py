"""`DeltaTableBuilder`: the builder of `DeltaTable.create`, `replace` and their variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pyspark.sql import types as spark_types

from bayou.errors import ArgumentError, ArgumentTypeError
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
from bayou.protocol.sql import parse_field
from bayou.spark.catalog_tables import NamedTable, named_table, why_unusable
from bayou.spark.delta_table.arguments import check_boolean, check_names, check_string
from bayou.spark.exceptions import methods_raise_spark_exceptions
from bayou.spark.expressions.session_settings import timestamp_type
from bayou.spark.hooks.requests import CreateTableRequest
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.types import from_spark
from bayou.spark.write.options import WriteOptions, with_session_defaults

TableT = TypeVar("TableT")


@dataclass(frozen=True)
class IdentityGenerator:
    """The values of an identity column.

    Attributes:
        start: the first value.
        step: difference between consecutive values; not 0.

    Examples:
        >>> numbers = IdentityGenerator(start=100, step=10)
        >>> builder = DeltaTable.create(spark).location("lake/numbered")
        >>> table = builder.addColumn("number", "BIGINT", generatedAlwaysAs=numbers).execute()
    """

    start: int = 1
    step: int = 1


@methods_raise_spark_exceptions
class DeltaTableBuilder(Generic[TableT]):
    """Builder of a table. `execute` creates the table; all other methods return the builder."""

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
        """Set the table's name: a catalog name, or a path name such as ``delta.`/path` ``."""
        self._name = check_string(identifier, "identifier")
        return self

    def location(self, location: str) -> DeltaTableBuilder[TableT]:
        """Set the table's path. By default, the catalog chooses the location."""
        self._location = check_string(location, "location")
        return self

    def comment(self, comment: str) -> DeltaTableBuilder[TableT]:
        """Set the table's description."""
        return self._with(description=check_string(comment, "comment"))

    def addColumn(  # noqa: N802, PLR0917
        self,
        colName: str,  # noqa: N803
        dataType: str | spark_types.DataType,  # noqa: N803
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,  # noqa: N803
        generatedByDefaultAs: IdentityGenerator | None = None,  # noqa: N803
        comment: str | None = None,
    ) -> DeltaTableBuilder[TableT]:
        """Add a column.

        Args:
            colName: the column's name.
            dataType: an SQL type name or a Spark type.
            nullable: whether the column may contain NULL.
            generatedAlwaysAs: SQL expression over other columns, or an identity generator.
            generatedByDefaultAs: identity generator for rows that don't have a value.
            comment: the column's comment.

        Raises:
            ArgumentError: an argument has the wrong type.
        """
        field = self._field(check_string(colName, "colName"), dataType)
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
            metadata = {**field.metadata, "comment": check_string(comment, "comment")}
            field = replace(field, metadata=metadata)
        field = replace(field, nullable=check_boolean(nullable, "nullable"))
        return self._with(schema=StructType((*self._definition.schema, field)))

    def addColumns(  # noqa: N802
        self, cols: spark_types.StructType | Sequence[spark_types.StructField]
    ) -> DeltaTableBuilder[TableT]:
        """Add the columns of a schema, with the comments and defaults in their metadata."""
        unchecked: Any = cols.fields if isinstance(cols, spark_types.StructType) else cols
        fields = unchecked if isinstance(unchecked, list | tuple) else [unchecked]
        for field in fields:
            if not isinstance(field, spark_types.StructField):
                raise ArgumentTypeError(
                    f"cols: {field!r} isn't a StructField. Give StructFields or a StructType.",
                    argument="cols",
                )
        added = from_spark(spark_types.StructType(list(fields)), table="the new table")
        return self._with(schema=StructType((*self._definition.schema, *added)))

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder[TableT]:  # noqa: N802
        """Set the partition columns, as separate arguments or as one list."""
        return self._with(partition_columns=check_names(cols, "cols"))

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder[TableT]:  # noqa: N802
        """Set the clustering columns, as separate arguments or as one list.

        A nested field is written with dots, such as `a.b`.
        """
        paths: list[tuple[str, ...]] = []
        for column in check_names(cols, "cols"):
            try:
                (path,) = column_paths(column)
            except ValueError as error:
                raise ArgumentError(
                    f"cols: {column!r} isn't a column name. Give a name such as 'city' or "
                    "'address.city'.",
                    argument="cols",
                ) from error
            paths.append(path)
        return self._with(clustering_columns=tuple(paths))

    def property(self, key: str, value: str) -> DeltaTableBuilder[TableT]:
        """Set a table property."""
        properties = {
            **self._definition.properties,
            check_string(key, "key"): check_string(value, "value"),
        }
        return self._with(properties=properties)

    def define(self, definition: TableDefinition) -> DeltaTableBuilder[TableT]:
        """Set the complete definition of the table, instead of calling the other methods."""
        self._definition = definition
        return self

    def execute(self) -> TableT:
        """Create or replace the table.

        Raises:
            TableAlreadyExistsError: the table exists, and the builder is from `DeltaTable.create`.
            TableNotFoundError: the table doesn't exist, and the builder is from
                `DeltaTable.replace`.
            ArgumentError: neither name nor location is set, or the location contains other files.
            SchemaError, TablePropertyError, UnsupportedFeatureError: the definition isn't valid.
        """
        name = None if self._name is None else self._resolved_name(self._name)
        location = self._location or (None if name is None else name.path)
        if name is not None and name.exists and self._mode is CreationMode.CREATE_IF_NOT_EXISTS:
            location = name.path  # as in Spark, the location of the builder is ignored
        if location is None:
            raise ArgumentError(
                "location: the table has no name and no location. Call tableName or location "
                "(DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION).",
                argument="location",
            )
        by_path = name is None or name.is_path
        target = TargetTable(
            spark=self._spark, location=location, name=None if by_path else self._name
        )
        definition = self._complete(target, is_managed=not by_path and self._location is None)
        if name is not None and not by_path and not name.exists:
            self._create_named(target, name, definition)
        else:
            if name is not None and not by_path and not name.is_at(location):
                raise ArgumentError(
                    f"{self._name}: the table is at {name.path}, not at {self._location}. Remove "
                    "location (DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH).",
                    argument="location",
                )
            self._create(target, definition, self._mode)
        return self._opened(target)

    def _create_named(
        self, target: TargetTable, name: NamedTable, definition: TableDefinition
    ) -> None:
        """Create or replace the table at `target`, and register its name in the catalog.

        If the table exists and the builder doesn't replace tables, the existing table must match
        `definition`.
        """
        if target.exists() and not self._mode.replaces:
            check_definition(target.table.latest_snapshot(target.engine), definition)
        else:
            self._create(target, definition, self._mode)
        name.register(self._spark, target.path)

    def _create(self, target: TargetTable, definition: TableDefinition, mode: CreationMode) -> None:
        create_table(target.engine, target.table, definition, mode, engine_info=SPARK_ENGINE_INFO)

    def _complete(self, target: TargetTable, *, is_managed: bool) -> TableDefinition:
        """Return the builder's definition of the table, with the attribute `is_managed` set.

        For a new table, the session's default table properties are added.
        """
        defaults: dict[str, str] = {}
        if not target.exists():
            path = target.location
            options = with_session_defaults(self._spark, path, {"path": path}, transaction=False)
            defaults = dict(WriteOptions.parse(options).properties)
        return replace(
            self._definition,
            properties={**defaults, **self._definition.properties},
            is_managed=is_managed,
        )

    def _resolved_name(self, name: str) -> NamedTable:
        named = named_table(self._spark, name)
        if named is None:
            raise ArgumentError(
                f"{name}: {why_unusable(self._spark, name)}",
                argument="identifier",
            )
        if named.is_path and not named.is_at(self._location):
            raise ArgumentError(
                f"{name}: the location {self._location} differs from the path in the name. "
                "Remove location (DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH).",
                argument="location",
            )
        return named

    def _field(self, name: str, data_type: str | spark_types.DataType) -> StructField:
        if isinstance(data_type, spark_types.DataType):
            schema = spark_types.StructType([spark_types.StructField(name, data_type)])
            return from_spark(schema, table="the new table").fields[0]
        try:
            type_string = check_string(data_type, "dataType")
            return parse_field(name, type_string, timestamp=timestamp_type(self._spark))
        except SchemaJsonError as error:
            raise ArgumentError(
                f"Column {name!r}: {error} (PARSE_SYNTAX_ERROR). Give a type such as 'bigint'.",
                argument="dataType",
            ) from error

    def _with(self, **changes: Any) -> DeltaTableBuilder[TableT]:
        self._definition = replace(self._definition, **changes)
        return self


def _identity(column: StructField, generator: object, argument: str) -> StructField:
    if not isinstance(generator, IdentityGenerator):
        raise ArgumentTypeError(
            f"Column {column.name!r}: {generator!r} isn't a generator. Pass an IdentityGenerator, "
            "or pass an SQL string as generatedAlwaysAs.",
            argument=argument,
        )
    return identity_column(
        column,
        start=generator.start,
        step=generator.step,
        allow_explicit=argument == "generatedByDefaultAs",
    )


def create_from_catalog(request: CreateTableRequest) -> Any:
    """Handler of the hook `create_table`: create a Delta table, and return its DataFrame.

    Returns NotImplemented for other formats, and if the name can't be the name of a Delta table of
    the session catalog.

    Raises:
        ArgumentError: an option isn't a table property.
    """
    spark, schema = request.spark, request.schema
    is_schema = schema is None or isinstance(schema, spark_types.StructType)
    if request.format != "delta" or not is_schema or named_table(spark, request.table) is None:
        return NotImplemented
    builder: DeltaTableBuilder[TargetTable]
    builder = DeltaTableBuilder(spark, CreationMode.CREATE, lambda target: target)
    builder = builder.tableName(request.table)
    if request.path is not None:
        builder = builder.location(request.path)
    if schema is not None:
        builder = builder.addColumns(schema)
    if request.description:
        builder = builder.comment(request.description)
    for key, value in request.options.items():
        if not key.startswith("delta."):
            raise ArgumentError(
                f"{request.table}: the option {key!r} isn't supported. Use only table properties "
                "such as delta.appendOnly as options.",
                argument=key,
            )
        builder = builder.property(key, str(value))
    builder.execute()
    return spark.table(request.table)
