"""Options of a write: mode, partitioning, schema evolution, idempotency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bayou.errors import ArgumentError
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.operation import Operation
from bayou.protocol.actions import UserMetadata
from bayou.protocol.schema import StructType
from bayou.protocol.type_widening import AutomaticWidening


class WriteMode(StrEnum):
    """Effect of a write on an existing table. The history records the value of the member."""

    APPEND = "Append"
    OVERWRITE = "Overwrite"
    ERROR = "ErrorIfExists"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """A write of rows to a table in one commit; can be pickled. A missing table is created.

    Attributes:
        partition_by: requested partition columns. If the table exists and `overwrite_schema` is
            False, they must equal the table's partition columns. If None, an existing table keeps
            its partition columns, and a new table has none.
        cluster_by: clustering columns of a new or overwritten table.
        replace_where: SQL condition that selects the rows that an overwrite replaces.
        checks_new_rows: whether new rows must satisfy `replace_where`.
        dynamic_partitions: whether an overwrite replaces only the partitions of the written rows.
        merge_schema: whether columns that the table lacks are added to the table.
        automatic_widening: the type changes that `merge_schema` may make; applies only to tables
            with type widening.
        overwrite_schema: whether an overwrite replaces the schema and partition columns.
        data_change: False if the write only rearranges rows of the table.
        max_records_per_file: maximum number of rows of a data file.
        compression: Parquet codec; overrides the codec in the table properties.
        target_file_size: size of data files in bytes; overrides the size in the table properties.
        properties: table properties of a new table.
        updates_metadata: whether name, description and properties are also set if the table exists.
        application: transaction identifier (application id, version) of an idempotent write.
        operation: operation name in the history.
        is_managed: whether the catalog chose the table's location. CREATE and REPLACE TABLE record
            this as `isManaged` in the history.
        replaces_definition: whether this is a CREATE or REPLACE TABLE, which replaces schema,
            properties and description of an existing table.
        name: name of a new table, or of a table whose definition is replaced.
        description: description of a new table, or of a table whose definition is replaced.
        reads: conditions that select the rows of the table from which the written rows were
            computed. A row is selected if one of the conditions is true; None is always true.
        time_zone: time zone of timestamp partition values that are stored without a time zone. It
            is used to compare these timestamps with new rows, `replace_where` and `reads`.
    """

    table: str
    schema: StructType
    mode: WriteMode = WriteMode.APPEND
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    checks_new_rows: bool = True
    dynamic_partitions: bool = False
    merge_schema: bool = False
    automatic_widening: AutomaticWidening = AutomaticWidening.SAME_FAMILY_TYPE
    overwrite_schema: bool = False
    data_change: bool = True
    max_records_per_file: int | None = None
    compression: str | None = None
    target_file_size: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    application: tuple[str, int] | None = None
    operation: Operation = Operation.WRITE
    is_managed: bool = False
    engine_info: str
    user_metadata: UserMetadata | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    replaces_definition: bool = False
    name: str | None = None
    description: str | None = None
    updates_metadata: bool = False
    reads: tuple[Predicate | None, ...] = ()
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.partition_by and self.cluster_by:
            raise ArgumentError(
                f"{self.table}: partitionBy and clusterBy can't be combined. Set one of them.",
                argument="clusterBy",
            )
        if not self.overwrites:
            return
        if self.overwrite_schema and self.replace_where is not None:
            raise ArgumentError(
                f"{self.table}: overwriteSchema and replaceWhere can't be combined, because "
                "retained rows keep the table's schema. Use mergeSchema to add columns.",
                argument="overwriteSchema",
            )

    @property
    def overwrites(self) -> bool:
        """Whether the write removes existing rows."""
        return self.mode is WriteMode.OVERWRITE

    @property
    def replaces_schema(self) -> bool:
        return self.overwrites and self.overwrite_schema

    def replaces_partitions(self, partition_columns: Sequence[str]) -> bool:
        """Whether the write replaces only the partitions of the written rows.

        Args:
            partition_columns: the table's partition columns after the write. Without partition
                columns, `dynamic_partitions` has no effect.

        Raises:
            ArgumentError: the write also has a `replace_where`, or replaces the schema.
        """
        if not (self.overwrites and self.dynamic_partitions and partition_columns):
            return False
        if self.replace_where is not None:
            raise ArgumentError(
                f"{self.table}: replaceWhere and partitionOverwriteMode=dynamic can't be combined "
                "(DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE). Set one of them.",
                argument="partitionOverwriteMode",
            )
        if self.overwrite_schema:
            raise ArgumentError(
                f"{self.table}: overwriteSchema and partitionOverwriteMode=dynamic can't be "
                "combined, because rows in other partitions keep the table's schema "
                "(DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE). Use mergeSchema to add "
                "columns, or partitionOverwriteMode=static to replace all rows.",
                argument="partitionOverwriteMode",
            )
        return True

    def operation_parameters(self) -> dict[str, object]:
        """Return the history's `operationParameters`, as delta-spark writes them."""
        if self.replaces_definition:
            return {"isManaged": str(self.is_managed).lower()}
        if self.operation is Operation.STREAMING_UPDATE:
            parameters: dict[str, object] = {
                "outputMode": "Complete" if self.overwrites else "Append"
            }
            if self.application is not None:
                parameters |= {"queryId": self.application[0], "epochId": str(self.application[1])}
            return parameters
        if self.operation is Operation.WRITE:
            parameters = {"mode": str(self.mode), "partitionBy": list(self.partition_by or ())}
        else:
            parameters = {
                "isManaged": str(self.is_managed).lower(),
                "description": None,
                "partitionBy": list(self.partition_by or ()),
                "clusterBy": list(self.cluster_by or ()),
                "properties": dict(self.properties),
            }
        if self.replace_where is not None:
            parameters["predicate"] = self.replace_where
        flags = {
            "isDynamicPartitionOverwrite": self.dynamic_partitions,
            "canOverwriteSchema": self.overwrite_schema,
            "canMergeSchema": self.merge_schema,
        }
        return parameters | {name: True for name, is_set in flags.items() if is_set}
