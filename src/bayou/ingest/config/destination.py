"""The table that a topic goes to, and how it is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from bayou.ingest.config.section import Section

__all__ = ["DeltaConfig", "DestinationConfig"]


class DeltaConfig(Section):
    """How the table is kept."""

    enable_schema_evolution: bool = Field(
        default=False,
        description="true: unknown fields become nullable columns in the commit of their rows; "
        "false: a record with unknown fields is a dead letter.",
    )
    max_new_columns: PositiveInt = Field(
        default=200,
        description="Columns that one batch may add to the table, nested ones counted one by one. "
        "A record with more new fields, or with one beyond the limit, is a dead letter.",
    )
    checkpoint_interval: PositiveInt | None = Field(
        default=None, description="Commits between checkpoints: delta.checkpointInterval."
    )
    enable_upsert: bool = Field(
        default=False,
        description="true: one row for each key of key-columns, the newest; records without value "
        "delete their key. Without key-columns every record is appended.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(), description="As destination.key-columns; write one of the two."
    )
    deleted_keys_retention_hours: PositiveInt = Field(
        default=720,
        description="How long an upsert's table remembers that a key was deleted, so that an older "
        "record that comes late doesn't bring its row back. One that comes later than that does.",
    )
    enable_optimize: bool = Field(
        default=False,
        description="true: small files of all partitions are packed, by the clock and after "
        "optimize-interval.",
    )
    optimize_interval: PositiveInt | None = Field(
        default=None,
        description="Records after which the table is optimized, once no others wait.",
    )
    enable_vacuum: bool = Field(
        default=False,
        description="true: once a day files are deleted that no version within the retention "
        "needs.",
    )
    vacuum_retention_hours: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="How long files stay that no version needs; not less than the table's own "
        "delta.deletedFileRetentionDuration, a week unless set, which it is by default.",
    )
    enable_compaction: bool = Field(
        default=False,
        description="true: small files of the partitions that were written since the last time "
        "are packed, by the clock and after compaction-interval.",
    )
    compaction_interval: PositiveInt | None = Field(
        default=None,
        description="Records after which written partitions are packed, once no others wait.",
    )


class DestinationConfig(Section):
    """The Delta table that a topic goes to."""

    bucket: str | None = Field(
        default=None, description="Must be the bucket of table-path; forms it alone."
    )
    table_path: str | None = Field(
        default=None,
        description="s3://, s3a:// or a local path (relative to this file). "
        "Default: s3a://<bucket>/<table-name>.",
    )
    table_name: str | None = Field(
        default=None,
        description="Name in messages, views and SQL. Default: the last part of table-path.",
    )
    format: Literal["delta"] = Field(default="delta", description="delta is the only format.")
    partition_columns: tuple[str, ...] = Field(
        default=(),
        description="Partition columns. year, month and day are made from the event time where "
        "the record has no field of that name.",
    )
    key_columns: tuple[str, ...] = Field(
        default=(),
        description="Fields of the record that make a row the same row, for enable-upsert.",
    )
    ordering_column: str | None = Field(
        default=None,
        description="Field that says which record of a key is newer, for enable-upsert. Default, "
        "and where it is equal: Kafka's timestamp, then the offset.",
    )
    delta_config: DeltaConfig = Field(
        default_factory=DeltaConfig, description="How the table is kept."
    )

    @field_validator("format", mode="before")
    @classmethod
    def _only_delta(cls, value: object) -> object:
        if value != "delta":
            raise ValueError(
                f"format {value!r} isn't written: files without a transaction log can't be "
                "exactly once; write 'delta', any Delta reader opens it"
            )
        return value

    @field_validator("partition_columns", "key_columns")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        folded = [v.lower() for v in value]
        for position, name in enumerate(folded):
            if name in folded[:position]:
                raise ValueError(f"column {value[position]!r} is named twice")
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
        """The key of an upsert; none where every record is appended."""
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
                f"write s3a://{self.bucket}/{self.table_path.lstrip('/')} or leave bucket out"
            )
        if rest.split("/", 1)[0] != self.bucket:
            raise ValueError(
                f"bucket is {self.bucket!r} but table-path lies in {rest.split('/', 1)[0]!r}; "
                "make them agree or leave bucket out"
            )
        return self

    @property
    def path(self) -> str:
        """Where the table is, as written; local paths aren't resolved yet."""
        return self.table_path or f"s3a://{self.bucket}/{self.table_name}"

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table_name or self.path.rstrip("/").rsplit("/", 1)[-1]
