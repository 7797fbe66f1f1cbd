"""Settings of a topic's Delta table."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from bayou.ingest.config.section import Section

__all__ = ["DeltaConfig", "DestinationConfig"]


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
        "count one by one. A record with a field beyond the limit becomes a dead letter.",
    )
    checkpoint_interval: PositiveInt | None = Field(
        default=None, description="Number of commits between checkpoints: delta.checkpointInterval."
    )
    enable_upsert: bool = Field(
        default=False,
        description="true: the table has one row for each key of key-columns, from the newest "
        "record; records without a value delete their key. Without key-columns every record is "
        "appended.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(), description="Alias of destination.key-columns; write one of them."
    )
    deleted_keys_retention_hours: PositiveInt = Field(
        default=720,
        description="How long an upsert remembers deleted keys, so that an older record that "
        "arrives late doesn't restore a deleted row.",
    )
    enable_optimize: bool = Field(
        default=False,
        description="true: small files of all partitions are compacted, by schedule and after "
        "optimize-interval.",
    )
    optimize_interval: PositiveInt | None = Field(
        default=None,
        description="Number of records after which the table is optimized, once no others wait.",
    )
    enable_vacuum: bool = Field(
        default=False,
        description="true: files that no version within the retention needs are deleted once a "
        "day.",
    )
    vacuum_retention_hours: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Retention of files that the current version doesn't need. Default and "
        "minimum: the table's delta.deletedFileRetentionDuration, a week unless set.",
    )
    enable_compaction: bool = Field(
        default=False,
        description="true: small files of the partitions that were written since the last "
        "compaction are compacted, by schedule and after compaction-interval.",
    )
    compaction_interval: PositiveInt | None = Field(
        default=None,
        description="Number of records after which written partitions are compacted, once no "
        "others wait.",
    )


class DestinationConfig(Section):
    """The Delta table of a topic."""

    bucket: str | None = Field(
        default=None,
        description="The bucket of table-path. With table-name it replaces table-path.",
    )
    table_path: str | None = Field(
        default=None,
        description="s3:// or s3a:// URI, or a local path (relative to this file). "
        "Default: s3a://<bucket>/<table-name>.",
    )
    table_name: str | None = Field(
        default=None,
        description="Name in messages, views and SQL. Default: the last part of table-path.",
    )
    format: Literal["delta"] = Field(default="delta", description="delta is the only format.")
    partition_columns: tuple[str, ...] = Field(
        default=(),
        description="Partition columns. year, month and day are derived from the event time unless "
        "the record has a field of that name.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(),
        description="Fields of the record that identify a row, for enable-upsert.",
    )
    ordering_column: str | None = Field(
        default=None,
        description="Field that orders the records of a key, for enable-upsert. Default, and for "
        "equal values: Kafka's timestamp, then the offset.",
    )
    delta_config: DeltaConfig = Field(
        default_factory=DeltaConfig,
        description="Schema evolution, upserts and maintenance of the table.",
    )

    @field_validator("format", mode="before")
    @classmethod
    def _only_delta(cls, value: object) -> object:
        if value != "delta":
            raise ValueError(
                f"format {value!r} isn't supported: files without a transaction log can't be "
                "exactly once; write 'delta'"
            )
        return value

    @field_validator("partition_columns", "key_columns")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        folded = [v.lower() for v in value]
        for position, name in enumerate(folded):
            if name in folded[:position]:
                raise ValueError(f"column {value[position]!r} is listed twice")
        return value

    @model_validator(mode="after")
    def _keys_agree(self) -> DestinationConfig:
        other = self.delta_config.key_columns
        if self.key_columns and other and self.key_columns != other:
            raise ValueError(
                "key-columns here and in delta-config differ; write them once, in destination"
            )
        return self

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The key columns of an upsert; empty if every record is appended."""
        if not self.delta_config.enable_upsert:
            return ()
        return self.key_columns or self.delta_config.key_columns

    @model_validator(mode="after")
    def _bucket_agrees(self) -> DestinationConfig:
        if self.table_path is None:
            if self.bucket is None or self.table_name is None:
                raise ValueError(
                    "table-path is missing (or bucket and table-name, which form it together)"
                )
            return self
        if self.bucket is None:
            return self
        scheme, separator, rest = self.table_path.partition("://")
        if not separator or scheme == "file":
            raise ValueError(
                f"bucket is {self.bucket!r} but table-path {self.table_path!r} is a local path; "
                f"write s3a://{self.bucket}/{self.table_path.lstrip('/')} or remove bucket"
            )
        if rest.split("/", 1)[0] != self.bucket:
            raise ValueError(
                f"bucket is {self.bucket!r} but the bucket of table-path is "
                f"{rest.split('/', 1)[0]!r}; correct one of them or remove bucket"
            )
        return self

    @property
    def path(self) -> str:
        """The table's path as configured; local paths aren't resolved."""
        return self.table_path or f"s3a://{self.bucket}/{self.table_name}"

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table_name or self.path.rstrip("/").rsplit("/", 1)[-1]
