"""Settings of a topic's Delta table."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, WithJsonSchema, field_validator, model_validator

from bayou.ingest.config.base_section import Section, property_text
from bayou.ingest.config.routing import RouteByConfig
from bayou.protocol import properties
from bayou.protocol.property_strings import PropertyValueError, column_path

_RESERVED = {
    "delta.setTransactionRetentionDuration": (
        "the property lets the offsets in the table expire, so records are read twice; remove "
        "the property"
    ),
    "delta.feature.clustering": "the feature needs clustering columns; set cluster-by instead",
}
"""For each table property that can't be configured, the reason and what to do instead."""

_PROPERTIES_SCHEMA = WithJsonSchema(
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
)
_CONSTRAINT = "delta.constraints."
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")

TOPIC = "{topic}"
"""Placeholder of a Kafka topic's name in `table-path` and `table-name`."""
_MAX_CLUSTERING = 4


class DeltaConfig(Section):
    """Schema evolution, upserts and maintenance of the table."""

    enable_schema_evolution: bool = Field(
        default=False,
        description="true: unknown fields become nullable columns in the commit of their rows. "
        "false: a record with unknown fields becomes a dead letter.",
    )
    max_new_columns: PositiveInt = Field(
        default=200,
        description="Maximum number of columns that one batch may add to the table; nested columns "
        "count one by one. The first batch of a table may add 5,000 columns, or max-new-columns if "
        "this is more. A record with a field beyond the limit becomes a dead letter.",
    )
    table_properties: Annotated[dict[str, str], _PROPERTIES_SCHEMA] = Field(
        default={},
        description="Table properties such as delta.enableChangeDataFeed. They are set when the "
        "table is created. For an existing table see apply-table-changes.",
    )
    checkpoint_interval: PositiveInt | None = Field(
        default=None, description="Number of commits between checkpoints: delta.checkpointInterval."
    )
    enable_upsert: bool = Field(
        default=False,
        description="true: the table has one row for each key (the values of key-columns), from "
        "the newest record of the key. A record without a value deletes the row of its key. "
        "Without key-columns every record is appended.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(), description="Alias of destination.key-columns; write one of them."
    )
    deleted_keys_retention_hours: PositiveInt = Field(
        default=720,
        description="Hours for which an upsert retains deleted keys, so that an older record that "
        "arrives late doesn't restore a deleted row.",
    )
    enable_optimize: bool = Field(
        default=False,
        description="true: small files of all partitions are compacted, on the maintenance "
        "schedule and after every optimize-interval records.",
    )
    optimize_interval: PositiveInt | None = Field(
        default=None,
        description="Number of written records after which the table is optimized, as soon as no "
        "more records are waiting.",
    )
    z_order_by: tuple[str, ...] = Field(
        default=(),
        description="Columns by which enable-optimize sorts rows in Z-order, instead of only "
        "compacting small files. If a partition has small files, all rows of the partition are "
        "sorted.",
    )
    enable_vacuum: bool = Field(
        default=False,
        description="true: files that no version within the retention needs are deleted once a "
        "day.",
    )
    vacuum_retention_hours: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Hours for which files that the current version doesn't need are retained. "
        "Default and minimum: the table's delta.deletedFileRetentionDuration, or a week if the "
        "property isn't set.",
    )
    enable_compaction: bool = Field(
        default=False,
        description="true: small files are compacted on the maintenance schedule and after every "
        "compaction-interval records. Only partitions that were written since the last compaction "
        "are compacted.",
    )
    compaction_interval: PositiveInt | None = Field(
        default=None,
        description="Number of written records after which partitions are compacted, as soon as no "
        "more records are waiting.",
    )

    @field_validator("z_order_by")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _distinct_columns(value)

    @field_validator("table_properties", mode="before")
    @classmethod
    def _convert_properties(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        for key, item in value.items():
            if item is None or isinstance(item, dict | list):
                raise ValueError(f"{key} must be a string, a number or a boolean")
        return {str(key): property_text(item) for key, item in value.items()}

    @field_validator("table_properties")
    @classmethod
    def _check_properties(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            properties.validate(value)
        except PropertyValueError as error:
            raise ValueError(str(error)) from error
        for key in properties.normalize(value):
            reason = _RESERVED.get(key)
            if key.lower().startswith(_CONSTRAINT):
                reason = "existing rows must be checked first; add the constraint with ALTER TABLE"
            elif key.lower().startswith("bayou."):
                reason = "the pipeline sets it; remove it"
            if reason is not None:
                raise ValueError(f"{key} can't be set here: {reason}")
        return value

    @model_validator(mode="after")
    def _check_checkpoint_interval(self) -> DeltaConfig:
        if self.checkpoint_interval is not None and properties.CHECKPOINT_INTERVAL.key in (
            properties.normalize(self.table_properties)
        ):
            raise ValueError(
                "checkpoint-interval and delta.checkpointInterval in table-properties are the same "
                "setting; write one of them"
            )
        return self


class DestinationConfig(Section):
    """The Delta table of a topic."""

    bucket: str | None = Field(
        default=None,
        description="The bucket of table-path. If table-path isn't set, bucket and table-name "
        "replace it.",
    )
    table_path: str | None = Field(
        default=None,
        description="Local path, relative to this file, or URI of s3, abfss, az, gs or hdfs. "
        "{topic} is replaced by the name of the Kafka topic. "
        "Default: s3a://<bucket>/<table-name>.",
    )
    table_name: str | None = Field(
        default=None,
        description="Name of the table in connector.catalog. If bucket is set instead of "
        "table-path, table-name is also the last part of the path. {topic} is replaced by the name "
        "of the Kafka topic, with an underscore for each character that isn't a letter or a digit. "
        "Default: the last part of table-path.",
    )
    format: Literal["delta"] = Field(default="delta", description="delta is the only format.")
    partition_columns: tuple[str, ...] = Field(
        default=(),
        description="Partition columns. year, month and day are derived from the event time if "
        "records have no field of the same name.",
    )
    cluster_by: tuple[str, ...] = Field(
        default=(),
        description="Up to four columns by which OPTIMIZE clusters the rows (liquid clustering), "
        "instead of partition-columns. Fields of structs are written as address.city.",
    )
    comment: str | None = Field(default=None, description="The table's comment.")
    column_comments: dict[str, str] = Field(
        default={},
        description="Comments of columns, by the columns' names. If a column is added later, its "
        "comment is set when it is added.",
    )
    apply_table_changes: bool = Field(
        default=False,
        description="true: when the topic starts, an existing table is changed to match "
        "table-properties, cluster-by, comment and column-comments. false: differences are only "
        "reported.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(),
        description="Fields of the record that identify a row, for enable-upsert.",
    )
    ordering_column: str | None = Field(
        default=None,
        description="Field that orders the records of a key, for enable-upsert. Records with equal "
        "values are ordered by Kafka's timestamp, then by offset. Default: only timestamp and "
        "offset order the records.",
    )
    route_by: RouteByConfig | None = Field(
        default=None,
        description="Several tables for one topic, by the value of an expression. table-path is "
        "then the default table, which also stores the offsets that all tables cover.",
    )
    delta_config: DeltaConfig = Field(
        default_factory=DeltaConfig,
        description="Schema evolution, upserts and maintenance of the table.",
    )

    @field_validator("format", mode="before")
    @classmethod
    def _check_format(cls, value: object) -> object:
        if value != "delta":
            raise ValueError(
                f"format {value!r} isn't supported: without a transaction log, records can't be "
                "written exactly once; write 'delta'"
            )
        return value

    @field_validator("partition_columns", "key_columns")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _distinct_columns(value)

    @field_validator("cluster_by", mode="after")
    @classmethod
    def _check_cluster_by(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) > _MAX_CLUSTERING:
            raise ValueError(
                f"{len(value)} clustering columns are listed, but Delta allows {_MAX_CLUSTERING}; "
                "remove some"
            )
        paths = [_path(name) for name in value]
        folded = [tuple(step.lower() for step in path) for path in paths]
        for position, path in enumerate(folded):
            if path in folded[:position]:
                raise ValueError(f"column {value[position]!r} is listed twice")
        return value

    @field_validator("column_comments")
    @classmethod
    def _check_column_comments(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            _path(name)
        return value

    @model_validator(mode="after")
    def _check_layout(self) -> DestinationConfig:
        if self.cluster_by and self.partition_columns:
            raise ValueError(
                "a table is either clustered or partitioned, but cluster-by and partition-columns "
                "are both set; remove one of them"
            )
        return self

    @model_validator(mode="after")
    def _check_z_order(self) -> DestinationConfig:
        columns = self.delta_config.z_order_by
        if columns and self.cluster_by:
            raise ValueError(
                "a clustered table is sorted by cluster-by; remove delta-config.z-order-by"
            )
        partitions = {name.lower() for name in self.partition_columns}
        for name in columns:
            if name.lower() in partitions:
                raise ValueError(
                    f"delta-config.z-order-by has the partition column {name!r}, but all rows of "
                    "a partition have the same value; use other columns"
                )
        return self

    @property
    def clustering_paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the clustering columns."""
        return tuple(_path(name) for name in self.cluster_by)

    @property
    def comment_paths(self) -> dict[tuple[str, ...], str]:
        """The configured comment of each column path."""
        return {_path(name): comment for name, comment in self.column_comments.items()}

    @model_validator(mode="after")
    def _keys_agree(self) -> DestinationConfig:
        other = self.delta_config.key_columns
        if self.key_columns and other and self.key_columns != other:
            raise ValueError(
                "key-columns differs from key-columns in delta-config; keep only one of them"
            )
        return self

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The key columns of an upsert; no columns if every record is appended."""
        if not self.delta_config.enable_upsert:
            return ()
        return self.key_columns or self.delta_config.key_columns

    @model_validator(mode="after")
    def _check_bucket(self) -> DestinationConfig:
        if self.table_path is None:
            if self.bucket is None or self.table_name is None:
                raise ValueError(
                    "table-path is missing; set table-path, or both bucket and table-name"
                )
            return self
        if self.bucket is None:
            return self
        scheme, separator, rest = self.table_path.partition("://")
        if not separator or scheme == "file":
            raise ValueError(
                f"bucket is set, but table-path {self.table_path!r} is a local path; "
                f"write s3a://{self.bucket}/{self.table_path.lstrip('/')} or remove bucket"
            )
        if rest.split("/", 1)[0] != self.bucket:
            # Without the names, which may contain credentials: s3a://USER:PASSWORD@bucket.
            raise ValueError(
                "bucket differs from the bucket of table-path; correct one of them or remove bucket"
            )
        return self

    @model_validator(mode="after")
    def _check_route_by(self) -> DestinationConfig:
        routes = self.route_by
        if routes is None:
            return self
        if self.upsert_keys:
            raise ValueError(
                "route-by isn't possible with enable-upsert: a tombstone has no fields, so its "
                "table is unknown; write a section for each table, with processing.where and "
                "on-filtered: delete"
            )
        for path in routes.paths:
            if (TOPIC in path) != self.is_template:
                raise ValueError(
                    f"route-by: {TOPIC} must be in all paths or in none, but {self.path} and "
                    f"{path} differ"
                )
        return self

    @property
    def path(self) -> str:
        """The table's configured path; it may be relative to the YAML file."""
        return self.table_path or f"s3a://{self.bucket}/{self.table_name}"

    @property
    def is_template(self) -> bool:
        """Whether the path contains `{topic}`, so that each topic has its own table."""
        return TOPIC in self.path

    def for_topic(self, name: str) -> DestinationConfig:
        """Return a copy in which `{topic}` is replaced by the name of a Kafka topic."""
        path, table = self.table_path, self.table_name
        if path is None:
            path = self.path
        update: dict[str, object] = {"table_path": path.replace(TOPIC, name)}
        if table is not None or TOPIC in self.name:
            update["table_name"] = self.name.replace(TOPIC, _NOT_IN_NAMES.sub("_", name))
        if self.route_by is not None:
            update["route_by"] = self.route_by.with_paths(
                lambda path: path.replace(TOPIC, name),
                lambda table: table.replace(TOPIC, _NOT_IN_NAMES.sub("_", name)),
            )
        return self.model_copy(update=update)

    @property
    def name(self) -> str:
        return self.table_name or self.path.rstrip("/").rsplit("/", 1)[-1]


def _distinct_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    folded = [name.lower() for name in names]
    for position, name in enumerate(folded):
        if name in folded[:position]:
            raise ValueError(f"column {names[position]!r} is listed twice")
    return names


def _path(name: str) -> tuple[str, ...]:
    try:
        return column_path(name)
    except ValueError:
        raise ValueError(
            f"{name!r} isn't a column name; write a name such as city or address.city; put a name "
            "that contains a dot in backticks, such as `a.b`"
        ) from None
