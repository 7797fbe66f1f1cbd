"""A topic: its records, how they become rows, when they are committed, what is promised."""

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

    batch_size: PositiveInt = Field(default=100_000, description="Records of a commit, at most.")
    flush_interval: Annotated[float, Field(gt=0)] = Field(
        default=60,
        description="Seconds after the first waiting record until a commit is made anyway.",
    )
    max_retries: Annotated[int, Field(ge=0)] = Field(
        default=3,
        description="Retries of a failed batch, and of brokers that don't answer, before the "
        "topic stops with an error.",
    )
    restart_interval: Annotated[float, Field(ge=0)] = Field(
        default=300,
        description="Seconds after which a topic that failed brokers, a store or Spark stopped is "
        "begun again, while other topics go on. 0: it stays stopped. Where all have stopped the "
        "run ends.",
    )


class ObjectiveConfig(Section):
    """What a topic promises to those who read its table."""

    freshness_seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="A record is to be in the table within this time. Status page and metrics "
        "count when it isn't; the alert rules burn its error budget.",
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
        description="Where to begin while the table covers nothing of the topic. The end that "
        "`latest` means is that of the first start.",
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="When records are gone from Kafka by its retention before they were read: "
        "fail stops the topic, continue goes on with the first that is there, and says which "
        "offsets were lost.",
    )
    on_missing_offsets: Literal["fail", "from-rows", "begin-anew"] = Field(
        default="fail",
        description="When the table has rows of the topic, but no transaction identifier that "
        "tells which offsets they cover, as in a copy of rows: fail stops the topic, from-rows "
        "goes on behind the last offset of the rows in each partition, begin-anew reads the topic "
        "as if the table had no such row.",
    )
    on_unknown_schema: Literal["dead-letter", "stop"] = Field(
        default="dead-letter",
        description="When the schema registry doesn't have the schema of a record, after a few "
        "tries: dead-letter makes the record a dead letter, stop stops the topic. An address that "
        "isn't a schema registry's stops it in any case.",
    )
    accept_restore: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Version of the last RESTORE of the table that is meant: the pipeline goes on "
        "behind the offsets that the table covers, what was taken out stays out.",
    )
    event_time: str | None = Field(
        default=None,
        description="Timestamp or date field that gives year, month and day. "
        "Default, and where it is null: the record's Kafka timestamp. UTC.",
    )
    decode: Literal["json", "debezium", "avro", "protobuf", "csv", "string", "binary"] = Field(
        default="json",
        description="What a record's value is: a JSON object; Debezium's envelope (op, before, "
        "after) around one, which needs enable-upsert; Avro or Protobuf by connector."
        "schema-registry, Avro also by an .avsc as schema-file; a line of CSV, whose values "
        "schema-file names in order; a text or bytes, which become the column value.",
    )
    csv_delimiter: str = Field(default=",", min_length=1, max_length=1, description="Of csv.")
    flatten: str | None = Field(
        default=None,
        min_length=1,
        description="Nested fields become columns of their own, with this between the names: "
        '"_" makes place.city the column place_city.',
    )
    masks: dict[str, str] = Field(
        default_factory=dict,
        description="Fields made unreadable before anything is written, by their path, such as "
        "place.city, through arrays too: hash (SHA-256 in hex), drop (null), truncate:N (the first "
        "characters); the case of letters is nothing to them. A key column may be hashed, an "
        "ordering-column not be masked.",
    )
    timestamp_formats: dict[str, str] = Field(
        default_factory=dict,
        description="Fields that become timestamps, by their name: epoch-s, epoch-ms, epoch-us "
        "(numbers), iso, or a pattern of strptime such as '%d.%m.%Y %H:%M:%S'. UTC where a text "
        "has no offset. A schema-file describes the value as it comes.",
    )
    kafka_columns: tuple[Literal["key", "headers", "timestamp"], ...] = Field(
        default=(),
        description="More of what Kafka says of a record, as columns: _kafka_key (binary), "
        "_kafka_headers (array of key and value), _kafka_timestamp. No mask reaches them; key is "
        "refused beside a masked key column.",
    )
    schema_policy: Literal["evolve", "freeze", "dead-letter"] | None = Field(
        default=None,
        description="A field that the table doesn't have: evolve adds a column, freeze leaves it "
        "out and says so, dead-letter refuses its record. Default: evolve with "
        "enable-schema-evolution, else dead-letter.",
    )
    destination: DestinationConfig = Field(description="The table.")
    processing: ProcessingConfig = Field(
        default_factory=ProcessingConfig,
        description="How records are grouped into commits.",
    )
    slo: ObjectiveConfig = Field(
        default_factory=ObjectiveConfig, description="What the topic promises to its readers."
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
        """What becomes of a field that the table doesn't have."""
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
        """Formats of timestamps by their columns."""
        if self.flatten is None:
            return self.timestamp_formats
        return {p.replace(".", self.flatten): form for p, form in self.timestamp_formats.items()}

    @property
    def column_masks(self) -> dict[str, str]:
        """Masks by every path that their fields may have in the table's columns."""
        return {
            found: mask for path, mask in self.masks.items() for found in self.column_paths(path)
        }

    def column_paths(self, path: str) -> tuple[str, ...]:
        """Where a field of a record may be in the table: `flatten` ends at the first array."""
        if self.flatten is None:
            return (path,)
        parts = path.split(".")
        return tuple(
            ".".join((self.flatten.join(parts[:end]), *parts[end:]))
            for end in range(1, len(parts) + 1)
        )

    @model_validator(mode="after")
    def _keys_stay_apart(self) -> TopicConfig:
        keys = {name.lower() for name in self.destination.upsert_keys}
        ordering = (self.destination.ordering_column or "").lower()
        for path, mask in self.column_masks.items():
            if path.lower() in keys and mask != "hash":
                raise ValueError(
                    f"masks: {path} is a key column, and {mask} would make one row of several "
                    "keys; write hash"
                )
            if path.lower() in keys and "key" in self.kafka_columns:
                raise ValueError(
                    f"masks: {path} is a key column, which kafka-columns: [key] would keep in "
                    "clear as _kafka_key; leave key out there"
                )
            if keys and path.lower() == ordering:
                raise ValueError(
                    f"masks: {path} is the ordering-column, which has to stay readable"
                )
        return self

    @model_validator(mode="after")
    def _policies_agree(self) -> TopicConfig:
        delta = self.destination.delta_config
        if self.schema_policy is None or "enable_schema_evolution" not in delta.model_fields_set:
            return self
        if (self.schema_policy == "evolve") != delta.enable_schema_evolution:
            raise ValueError(
                f"schema-policy {self.schema_policy} and enable-schema-evolution "
                f"{str(delta.enable_schema_evolution).lower()} say different things; leave "
                "enable-schema-evolution out"
            )
        return self

    @field_validator("kafka_topic")
    @classmethod
    def _is_topic(cls, value: str) -> str:
        if not _TOPIC_NAME.match(value):
            raise ValueError(
                f"{value!r} can't be a Kafka topic: 1 to 249 of letters, digits, '.', '_', '-'"
            )
        return value
