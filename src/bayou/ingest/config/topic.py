"""Settings of a topic: its records, their columns, commits and service level objective."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from bayou.ingest.config.destination import DestinationConfig
from bayou.ingest.config.section import Section
from bayou.ingest.decode.formats import is_timestamp_format

__all__ = ["ObjectiveConfig", "ProcessingConfig", "TopicConfig"]

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


class ProcessingConfig(Section):
    """How records are grouped into commits."""

    batch_size: PositiveInt = Field(
        default=100_000, description="Maximum number of records in a commit."
    )
    flush_interval: Annotated[float, Field(gt=0)] = Field(
        default=60,
        description="Seconds from the first waiting record to the commit of a smaller batch.",
    )
    max_retries: Annotated[int, Field(ge=0)] = Field(
        default=3,
        description="Retries of a failed batch, and of brokers that don't answer, before the "
        "topic stops with an error.",
    )
    restart_interval: Annotated[float, Field(ge=0)] = Field(
        default=300,
        description="Seconds after which a topic that stopped with an error of brokers, store or "
        "Spark is restarted, while other topics run. 0: it stays stopped. The run ends when all "
        "topics have stopped.",
    )


class ObjectiveConfig(Section):
    """The service level objective of a topic's table."""

    freshness_seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="A record is in the table within this time. Status page and metrics count "
        "violations, which consume the error budget of the alert rules.",
    )


class TopicConfig(Section):
    """One Kafka topic and its table."""

    kafka_topic: str = Field(description="Name of the Kafka topic.")
    schema_file: str | None = Field(
        default=None,
        description="JSON Schema of a record (draft-07 or 2020-12), relative to this file. "
        "Without it the schema is inferred from the first batch.",
    )
    starting_offsets: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where to start while the table covers no offset of the topic. `latest` is the "
        "end of the topic at the first start.",
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="When Kafka's retention deletes records before they are read: fail stops the "
        "topic, continue resumes at the first remaining record and reports the lost offsets.",
    )
    on_missing_offsets: Literal["fail", "from-rows", "begin-anew"] = Field(
        default="fail",
        description="When the table has rows of the topic but no transaction identifier with their "
        "offsets, as in a copy of rows: fail stops the topic, from-rows resumes after the last "
        "offset of the rows in each partition, begin-anew reads the topic as if the table had no "
        "rows of it.",
    )
    on_unknown_schema: Literal["dead-letter", "stop"] = Field(
        default="dead-letter",
        description="When the schema registry doesn't have the schema of a record after a few "
        "attempts: dead-letter makes the record a dead letter, stop stops the topic. An address "
        "that isn't a schema registry always stops the topic.",
    )
    accept_restore: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Version of the last intended RESTORE of the table: the pipeline resumes after "
        "the offsets that the table covered before it, and the removed rows stay removed.",
    )
    event_time: str | None = Field(
        default=None,
        description="Timestamp or date field from which year, month and day are derived, in UTC. "
        "Default, and for nulls: the record's Kafka timestamp.",
    )
    decode: Literal["json", "debezium", "avro", "protobuf", "csv", "string", "binary"] = Field(
        default="json",
        description="Format of a record's value: a JSON object; a JSON object in Debezium's "
        "envelope (op, before, after), which needs enable-upsert; Avro or Protobuf with connector."
        "schema-registry, Avro also with an .avsc file as schema-file; a line of CSV, whose "
        "columns schema-file names in order; a string or bytes, which become the column value.",
    )
    csv_delimiter: str = Field(
        default=",", min_length=1, max_length=1, description="Delimiter of csv."
    )
    flatten: str | None = Field(
        default=None,
        min_length=1,
        description="Separator for flattening nested fields into top-level columns: "
        '"_" makes place.city the column place_city.',
    )
    masks: dict[str, str] = Field(
        default_factory=dict,
        description="Masks by the path of a field, such as place.city, also inside arrays, applied "
        "before anything is written: hash (SHA-256 in hex), drop (null), truncate:N (the first N "
        "characters). Paths are case-insensitive. A key column may only be hashed, an "
        "ordering-column can't be masked.",
    )
    timestamp_formats: dict[str, str] = Field(
        default_factory=dict,
        description="Formats of timestamp fields, by their name: epoch-s, epoch-ms, epoch-us "
        "(numbers), iso, or a pattern of strptime such as '%d.%m.%Y %H:%M:%S'. A string without an "
        "offset is in UTC. A schema-file describes the original value.",
    )
    kafka_columns: tuple[Literal["key", "headers", "timestamp"], ...] = Field(
        default=(),
        description="Additional columns with Kafka's metadata of a record: _kafka_key (binary), "
        "_kafka_headers (array of key and value), _kafka_timestamp. Masks don't apply to them; key "
        "can't be combined with a masked key column.",
    )
    schema_policy: Literal["evolve", "freeze", "dead-letter"] | None = Field(
        default=None,
        description="When a record has a field that the table doesn't have: evolve adds a column, "
        "freeze drops the field and reports it, dead-letter makes the record a dead letter. "
        "Default: evolve with enable-schema-evolution, otherwise dead-letter.",
    )
    destination: DestinationConfig = Field(description="The table.")
    processing: ProcessingConfig = Field(
        default_factory=ProcessingConfig,
        description="How records are grouped into commits.",
    )
    slo: ObjectiveConfig = Field(
        default_factory=ObjectiveConfig, description="Service level objective of the table."
    )

    @field_validator("masks")
    @classmethod
    def _are_masks(cls, value: dict[str, str]) -> dict[str, str]:
        for path, mask in value.items():
            if not re.fullmatch(r"hash|drop|truncate:[1-9][0-9]*", mask):
                raise ValueError(f"{path} is {mask!r}; write hash, drop, or truncate:3")
        return value

    @property
    def policy(self) -> Literal["evolve", "freeze", "dead-letter"]:
        """The effective schema policy."""
        if self.schema_policy is not None:
            return self.schema_policy
        evolves = self.destination.delta_config.enable_schema_evolution
        return "evolve" if evolves else "dead-letter"

    @field_validator("timestamp_formats")
    @classmethod
    def _are_timestamp_formats(cls, value: dict[str, str]) -> dict[str, str]:
        for name, form in value.items():
            if not is_timestamp_format(form):
                raise ValueError(
                    f"{name} is {form!r}; write epoch-s, epoch-ms, epoch-us, iso, or a pattern "
                    "such as '%d.%m.%Y %H:%M:%S'"
                )
        return value

    @property
    def column_timestamps(self) -> dict[str, str]:
        """Timestamp formats by column."""
        if self.flatten is None:
            return self.timestamp_formats
        return {p.replace(".", self.flatten): form for p, form in self.timestamp_formats.items()}

    @property
    def column_masks(self) -> dict[str, str]:
        """Masks by every possible path of their fields in the table's columns."""
        return {
            column: mask for path, mask in self.masks.items() for column in self.column_paths(path)
        }

    def column_paths(self, path: str) -> tuple[str, ...]:
        """Return the possible paths of a field in the table; `flatten` stops at the first array."""
        if self.flatten is None:
            return (path,)
        parts = path.split(".")
        return tuple(
            ".".join((self.flatten.join(parts[:end]), *parts[end:]))
            for end in range(1, len(parts) + 1)
        )

    @model_validator(mode="after")
    def _masks_fit_keys(self) -> TopicConfig:
        keys = {name.lower() for name in self.destination.upsert_keys}
        ordering = (self.destination.ordering_column or "").lower()
        for path, mask in self.column_masks.items():
            if path.lower() in keys and mask != "hash":
                raise ValueError(
                    f"masks: {path} is a key column, and {mask} would merge the rows of several "
                    "keys; write hash"
                )
            if path.lower() in keys and "key" in self.kafka_columns:
                raise ValueError(
                    f"masks: {path} is a key column, which kafka-columns: [key] would store "
                    "unmasked as _kafka_key; remove key from kafka-columns"
                )
            if keys and path.lower() == ordering:
                raise ValueError(f"masks: {path} is the ordering-column, which can't be masked")
        return self

    @model_validator(mode="after")
    def _policies_agree(self) -> TopicConfig:
        delta = self.destination.delta_config
        if self.schema_policy is None or "enable_schema_evolution" not in delta.model_fields_set:
            return self
        if (self.schema_policy == "evolve") != delta.enable_schema_evolution:
            raise ValueError(
                f"schema-policy {self.schema_policy} and enable-schema-evolution "
                f"{str(delta.enable_schema_evolution).lower()} contradict each other; remove "
                "enable-schema-evolution"
            )
        return self

    @field_validator("kafka_topic")
    @classmethod
    def _is_topic(cls, value: str) -> str:
        if not _TOPIC_NAME.match(value):
            raise ValueError(
                f"{value!r} isn't a valid Kafka topic name; use 1 to 249 letters, digits, '.', "
                "'_', '-'"
            )
        return value
