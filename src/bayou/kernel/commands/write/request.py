"""What a write asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bayou.errors import ArgumentError
from bayou.kernel.operation import Operation
from bayou.protocol.schema import StructType

__all__ = ["TableWrite", "WriteMode"]


class WriteMode(StrEnum):
    """What happens to the rows that are there; the values are the history's words."""

    APPEND = "Append"
    OVERWRITE = "Overwrite"
    ERROR = "ErrorIfExists"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """Rows of a schema, to be written to a table in one commit. Pickles.

    Attributes:
        table: path of the table, made where there is none.
        schema: of the rows.
        mode: what happens to the rows that are there.
        partition_by: partition columns that were asked for; an existing table's must be the same
            unless `overwrite_schema` is set. None: whatever the table has.
        cluster_by: clustering columns of a new table, or of one that is overwritten.
        replace_where: SQL text; an overwrite replaces the rows for which it is true, and takes only
            such rows.
        dynamic_partitions: an overwrite replaces the partitions that the rows are of.
        merge_schema: columns that the table lacks are added to it.
        overwrite_schema: an overwrite gives the table the rows' schema, and `partition_by`.
        data_change: False where the rows are the table's own, laid out anew.
        max_records_per_file: how many rows a data file holds at most.
        compression: Parquet codec that takes the place of the table's.
        properties: table properties, set where the write makes the table.
        application: an application's id and version, by which the write is done once.
        operation: what the history says.
        is_managed: whether a catalog's table lies where the catalog puts its tables; the history of
            an operation on a table by its name says so.
        engine_info: who writes.
        user_metadata: free text of the commit.
        defines: a CREATE or REPLACE TABLE: a table that is there gets this definition, properties
            and description included, and loses what it doesn't have.
        description: of a table that is so defined.
        time_zone: the zone of partition timestamps that the log stores without one. An overwrite
            compares them with the timestamps of its rows and of `replace_where`.

    Raises:
        ArgumentError: settings that exclude each other.
    """

    table: str
    schema: StructType
    mode: WriteMode = WriteMode.APPEND
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    dynamic_partitions: bool = False
    merge_schema: bool = False
    overwrite_schema: bool = False
    data_change: bool = True
    max_records_per_file: int | None = None
    compression: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    application: tuple[str, int] | None = None
    operation: Operation = Operation.WRITE
    is_managed: bool = False
    engine_info: str
    user_metadata: str | None = None
    defines: bool = False
    description: str | None = None
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.partition_by and self.cluster_by:
            raise ArgumentError(
                f"{self.table} can't be partitioned and clustered: give partitionBy or clusterBy.",
                argument="clusterBy",
            )
        if not self.overwrites:
            return
        if self.replace_where is not None and self.dynamic_partitions:
            raise ArgumentError(
                "replaceWhere and partitionOverwriteMode=dynamic both say which rows are replaced; "
                "give one of them.",
                argument="partitionOverwriteMode",
            )
        if self.overwrite_schema and self.replace_where is not None:
            raise ArgumentError(
                "overwriteSchema and replaceWhere exclude each other: rows that stay have the "
                "schema that the table has. To add columns use mergeSchema.",
                argument="overwriteSchema",
            )

    @property
    def overwrites(self) -> bool:
        """Whether rows that are there go."""
        return self.mode is WriteMode.OVERWRITE

    @property
    def replaces_schema(self) -> bool:
        """Whether an existing table gets the rows' schema."""
        return self.overwrites and self.overwrite_schema

    def operation_parameters(self) -> dict[str, object]:
        """What the history says of the write, as delta-spark's does."""
        if self.defines:
            return {"isManaged": str(self.is_managed).lower()}
        if self.operation is Operation.STREAMING_UPDATE:
            given: dict[str, object] = {"outputMode": "Complete" if self.overwrites else "Append"}
            if self.application is not None:
                given |= {"queryId": self.application[0], "epochId": str(self.application[1])}
            return given
        if self.operation is Operation.WRITE:
            given = {"mode": str(self.mode), "partitionBy": list(self.partition_by or ())}
        else:
            given = {
                "isManaged": str(self.is_managed).lower(),
                "description": None,
                "partitionBy": list(self.partition_by or ()),
                "clusterBy": list(self.cluster_by or ()),
                "properties": dict(self.properties),
            }
        if self.replace_where is not None:
            given["predicate"] = self.replace_where
        flags = {
            "isDynamicPartitionOverwrite": self.dynamic_partitions,
            "canOverwriteSchema": self.overwrite_schema,
            "canMergeSchema": self.merge_schema,
        }
        return given | {name: True for name, is_set in flags.items() if is_set}
