"""Settings of a topic: its records, columns, commits and service level objective."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bayou.ingest.config.base_section import Section, kebab
from bayou.ingest.config.destination import DestinationConfig
from bayou.ingest.config.processing import ProcessingConfig, names_in
from bayou.ingest.decode.formats import is_timestamp_format
from bayou.kernel.expressions.model import Expression

_NOT_IN_PARQUET = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that column names can't have if the table has no column mapping."""
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


class ObjectiveConfig(Section):
    """The service level objective of a topic's table."""

    freshness_seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Objective: each record is in the table within this number of seconds. The "
        "status page and metrics count violations. Violations consume the error budget of the "
        "alert rules.",
    )


class TopicConfig(Section):
    """One Kafka topic and its table."""

    kafka_topic: str = Field(
        default="",
        description="Name of the Kafka topic. Required, unless kafka-topics or kafka-topic-pattern "
        "is set.",
    )
    kafka_topics: tuple[str, ...] = Field(
        default=(),
        description="Names of several Kafka topics, each with the settings of this section. If "
        "table-path contains {topic}, each topic has its own table; otherwise all topics are "
        "appended to one table.",
    )
    kafka_topic_pattern: str | None = Field(
        default=None,
        min_length=1,
        description="Regular expression for names of Kafka topics, as an alternative to "
        "kafka-topics; it must match the whole name. A running pipeline starts topics that are "
        "created later. Names that begin with __ are internal and match only if the pattern begins "
        "with __.",
    )
    schema_file: str | None = Field(
        default=None,
        description="JSON Schema of a record (draft-07 or 2020-12), relative to this file. "
        "Without it the schema is inferred from the first batch.",
    )
    starting_offsets: Literal["earliest", "latest"] | dt.datetime | dict[int, int] = Field(
        default="earliest",
        description="Where a topic starts if the table has no offsets of it. earliest: at the "
        "first record. latest: at the end of the topic when it is first started. A timestamp such "
        "as 2026-01-05T00:00:00Z: at the first record of each partition at or after this time (UTC "
        "if the timestamp has no time zone). Offsets by partition, such as {0: 23, 1: 0}: at these "
        "offsets; partitions that aren't listed start at their first record.",
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="What happens if Kafka's retention deletes records before they are read: fail "
        "stops the topic, continue resumes at the first remaining record and reports the lost "
        "offsets.",
    )
    on_missing_offsets: Literal["fail", "from-rows", "begin-anew"] = Field(
        default="fail",
        description="What happens if the table has rows of the topic but no transaction identifier "
        "with their offsets, for example because the rows were copied: fail stops the topic, "
        "from-rows resumes after the last offset of the rows in each partition, begin-anew reads "
        "the topic as if the table had no rows of the topic.",
    )
    on_unknown_schema: Literal["dead-letter", "stop"] = Field(
        default="dead-letter",
        description="What happens if the schema registry doesn't have the schema of a record after "
        "a few attempts: dead-letter makes the record a dead letter, stop stops the topic. If the "
        "server at the URL isn't a schema registry, the topic always stops.",
    )
    accept_restore: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Version of the last RESTORE that you accept for the section's topics. The "
        "pipeline resumes after the offsets that it had read before the RESTORE, so it doesn't add "
        "the removed rows again.",
    )
    event_time: str | None = Field(
        default=None,
        description="Timestamp or date field from which year, month and day are derived, in UTC. "
        "If event-time isn't set, or the field is null, the record's Kafka timestamp is used.",
    )
    decode: Literal[
        "json", "debezium", "avro", "protobuf", "json-schema", "csv", "string", "binary"
    ] = Field(
        default="json",
        description="Format of a record's value. json: a JSON object. debezium: a JSON object in "
        "Debezium's envelope (op, before, after); needs enable-upsert. avro, protobuf, "
        "json-schema: a value with a schema of connector.schema-registry; avro can use an .avsc "
        "file as schema-file instead. csv: a line of CSV; schema-file names the columns in order. "
        "string, binary: a string or bytes, stored in the column value.",
    )
    decode_key: Literal["json", "avro", "protobuf", "json-schema"] = Field(
        default="json",
        description="Format of Kafka keys. json: JSON, or a string. avro, protobuf, json-schema: a "
        "key with a schema of connector.schema-registry. An upsert decodes only the keys of "
        "records without a value, which delete rows. key-json in kafka-columns decodes all keys.",
    )
    schema_record: str | None = Field(
        default=None,
        description="Full name of the record's type in the schema registry, such as "
        "com.example.Order, for subject-name-strategy record-name and topic-record-name.",
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
        description="For each field path, such as place.city, the mask that is applied before "
        "anything is written: hash (SHA-256 in hex), drop (null), truncate:N (the first N "
        "characters). Fields inside arrays can be masked too. Paths are case-insensitive. For a "
        "key column, hash is the only allowed mask. An ordering-column can't be masked.",
    )
    timestamp_formats: dict[str, str] = Field(
        default_factory=dict,
        description="Formats of timestamp fields, by the field's name: epoch-s, epoch-ms, epoch-us "
        "(numbers), iso, or a pattern of strptime such as '%d.%m.%Y %H:%M:%S'. A string without a "
        "time zone is in UTC. In a schema-file, the field has the type of the original value.",
    )
    kafka_columns: tuple[Literal["key", "key-json", "headers", "timestamp"], ...] = Field(
        default=(),
        description="Additional columns with Kafka's metadata of a record: _kafka_key (binary), "
        "_kafka_key_json (the key, decoded with decode-key, as JSON), "
        "_kafka_headers (array of key and value), _kafka_timestamp. Masks don't apply to them; key "
        "and key-json can't be combined with a masked key column.",
    )
    schema_policy: Literal["evolve", "freeze", "dead-letter"] | None = Field(
        default=None,
        description="What happens if a record has a field that the table doesn't have: evolve adds "
        "a column, freeze drops the field and reports it, dead-letter makes the record a dead "
        "letter. Default: evolve if enable-schema-evolution is true, else dead-letter.",
    )
    destination: DestinationConfig = Field(description="The table.")
    processing: ProcessingConfig = Field(
        default_factory=ProcessingConfig,
        description="Derived columns and filters of records, and how records are grouped into "
        "commits.",
    )
    slo: ObjectiveConfig = Field(
        default_factory=ObjectiveConfig, description="Service level objective of the table."
    )

    @model_validator(mode="after")
    def _check_topics(self) -> TopicConfig:
        fields = ("kafka_topic", "kafka_topics", "kafka_topic_pattern")
        written = [kebab(name) for name in fields if getattr(self, name)]
        if not written:
            raise ValueError("the key 'kafka-topic' is missing")
        if len(written) > 1:
            raise ValueError(f"{' and '.join(written)} exclude each other; write one of them")
        if not self.has_several_topics:
            return self
        if isinstance(self.starting_offsets, dict):
            raise ValueError(  # noqa: TRY004  # pydantic reports it
                f"starting-offsets by partition aren't possible with {written[0]}; write earliest, "
                "latest or a timestamp instead, or write a section for each topic"
            )
        if self.shares_table and self.destination.upsert_keys:
            raise ValueError(
                "enable-upsert isn't possible for several topics in one table, because the order "
                "of records of different topics isn't defined; write {topic} in table-path, so "
                "that each topic has its own table"
            )
        return self

    @property
    def has_several_topics(self) -> bool:
        """Whether the section has `kafka-topics` or `kafka-topic-pattern`."""
        return bool(self.kafka_topics) or self.kafka_topic_pattern is not None

    @property
    def shares_table(self) -> bool:
        """Whether the topics of the section are written to one table."""
        return self.has_several_topics and not self.destination.is_template

    def for_topic(self, name: str) -> TopicConfig:
        """Return the settings of one of the section's topics."""
        destination = self.destination.for_topic(name)
        update = {"kafka_topic": name, "kafka_topics": (), "kafka_topic_pattern": None}
        return self.model_copy(update={**update, "destination": destination})

    @field_validator("starting_offsets", mode="before")
    @classmethod
    def _check_starting_offsets(cls, value: object) -> object:
        match value:
            case "earliest" | "latest":
                return value
            case dict():
                return _offsets_by_partition(value)
            case dt.datetime():
                start = value
            case dt.date():
                start = dt.datetime.combine(value, dt.time())
            case str():
                try:
                    start = dt.datetime.fromisoformat(value)
                except ValueError as error:
                    raise _not_a_start(value) from error
            case _:
                raise _not_a_start(value)
        return start if start.tzinfo is not None else start.replace(tzinfo=dt.UTC)

    @field_validator("masks")
    @classmethod
    def _check_masks(cls, value: dict[str, str]) -> dict[str, str]:
        for path, mask in value.items():
            if not re.fullmatch(r"hash|drop|truncate:[1-9][0-9]*", mask):
                raise ValueError(
                    f"mask of {path}: {mask!r} isn't a mask; write hash, drop, or truncate:3"
                )
        return value

    @property
    def policy(self) -> Literal["evolve", "freeze", "dead-letter"]:
        """The `schema-policy`. Its default depends on `enable-schema-evolution`."""
        if self.schema_policy is not None:
            return self.schema_policy
        evolves = self.destination.delta_config.enable_schema_evolution
        return "evolve" if evolves else "dead-letter"

    @field_validator("timestamp_formats")
    @classmethod
    def _check_timestamp_formats(cls, value: dict[str, str]) -> dict[str, str]:
        for name, form in value.items():
            if not is_timestamp_format(form):
                raise ValueError(
                    f"{name}: {form!r} isn't a valid timestamp format; write epoch-s, epoch-ms, "
                    "epoch-us, iso, or a pattern such as '%d.%m.%Y %H:%M:%S'"
                )
        return value

    @property
    def column_timestamps(self) -> dict[str, str]:
        if self.flatten is None:
            return self.timestamp_formats
        return {p.replace(".", self.flatten): form for p, form in self.timestamp_formats.items()}

    @property
    def column_masks(self) -> dict[str, str]:
        """The mask of each column path. With `flatten`, a field can have several column paths."""
        return {
            column: mask for path, mask in self.masks.items() for column in self.column_paths(path)
        }

    def column_paths(self, path: str) -> tuple[str, ...]:
        """Return all column paths that a field of a record can have.

        Without `flatten`, this is only `path`. With `flatten`, structs are flattened to columns,
        but structs inside an array aren't. The column path then depends on which field of `path` is
        an array. The result contains the column path for each case.
        """
        if self.flatten is None:
            return (path,)
        parts = path.split(".")
        return tuple(
            ".".join((self.flatten.join(parts[:end]), *parts[end:]))
            for end in range(1, len(parts) + 1)
        )

    @model_validator(mode="after")
    def _check_masked_keys(self) -> TopicConfig:
        keys = {name.lower() for name in self.destination.upsert_keys}
        ordering = (self.destination.ordering_column or "").lower()
        for path, mask in self.column_masks.items():
            if path.lower() in keys and mask != "hash":
                raise ValueError(
                    f"masks: {path} is a key column, and {mask} would merge the rows of several "
                    "keys; use the mask 'hash'"
                )
            for name in {"key", "key-json"}.intersection(self.kafka_columns):
                if path.lower() in keys:
                    raise ValueError(
                        f"masks: {path} is a key column, and the column {name} of kafka-columns "
                        f"would store its values unmasked; remove {name} from kafka-columns"
                    )
            if keys and path.lower() == ordering:
                raise ValueError(
                    f"masks: {path} is the ordering-column, which can't be masked; remove {path} "
                    "from masks"
                )
        return self

    @model_validator(mode="after")
    def _check_processing(self) -> TopicConfig:
        destination, processing = self.destination, self.processing
        derived = {name.lower() for name in processing.columns}
        dropped = {name.lower() for name in processing.drop}
        mapping = "delta.columnmapping.mode"
        if mapping not in map(str.lower, destination.delta_config.table_properties):
            for name in processing.columns:
                if _NOT_IN_PARQUET.search(name):
                    raise ValueError(
                        f"processing: columns: {name!r} has a space or one of the characters "
                        "',;{}()='; use another name"
                    )
        ordering = [destination.ordering_column] if destination.ordering_column else []
        for key, names in (
            ("key-columns", destination.upsert_keys),
            ("ordering-column", ordering if destination.upsert_keys else ()),
        ):
            for name in names:
                if name.lower() in derived | dropped:
                    how = "columns derives it" if name.lower() in derived else "drop removes it"
                    raise ValueError(
                        f"processing: {name} is in {key}, but {how}; {key} needs a field of the "
                        "records that is stored unchanged"
                    )
        stored = [*destination.partition_columns, *(p[0] for p in destination.clustering_paths)]
        for name in stored:
            if name.lower() in dropped:
                raise ValueError(
                    f"processing: {name} is a column of partition-columns or cluster-by, but drop "
                    "removes it; remove it from drop"
                )
        keys = {name.lower() for name in destination.upsert_keys}
        masked = {path.lower() for path in self.column_masks}
        if "_kafka_key" in processing.inputs and keys & masked:
            raise ValueError(
                "processing: an expression reads _kafka_key, which contains the unmasked value of "
                "a masked key column; read the key column instead"
            )
        return self

    @property
    def deletes_filtered(self) -> bool:
        """Whether a record that `where` filters out deletes the row with the same key.

        True if the topic has upserts and `on-filtered` is `delete`.
        """
        return self.processing.on_filtered == "delete" and bool(self.destination.upsert_keys)

    @property
    def route_expression(self) -> Expression | None:
        """The expression of `route-by`, without derived columns; None if `route-by` isn't set.

        Each derived column is replaced by the expression that defines it.
        """
        routes = self.destination.route_by
        return None if routes is None else self.processing.expanded(routes.parsed)

    @property
    def route_inputs(self) -> frozenset[str]:
        """Lowercase names of the columns that `route-by` and `where` read."""
        expressions = (self.route_expression, self.processing.condition)
        return frozenset(n for e in expressions if e is not None for n in names_in(e))

    def without_routes(self) -> TopicConfig:
        """Return the settings for records to which `where` and `route-by` were already applied."""
        processing = self.processing.model_copy(update={"where": None})
        destination = self.destination.model_copy(update={"route_by": None})
        return self.model_copy(update={"processing": processing, "destination": destination})

    @property
    def input_fields(self) -> frozenset[str]:
        """Lowercase names of fields that aren't stored but read by expressions or `event-time`."""
        processing = self.processing
        read = {*processing.inputs, *self.route_inputs}
        if self.event_time is not None and self.event_time not in processing.columns:
            read.add(self.event_time.lower())
        return processing.unstored & read

    @property
    def skipped_fields(self) -> frozenset[str]:
        """Lowercase names of fields that are neither stored nor read by expressions."""
        return self.processing.unstored - self.input_fields

    @model_validator(mode="after")
    def _check_schema_policy(self) -> TopicConfig:
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

    @field_validator("kafka_topic", "kafka_topics")
    @classmethod
    def _check_topic_names(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        names = (value,) if isinstance(value, str) else value
        for name in names:
            if not _TOPIC_NAME.match(name) or name in (".", ".."):
                raise ValueError(
                    f"{name!r} isn't a valid Kafka topic name; use 1 to 249 letters, digits, '.', "
                    "'_', '-'"
                )
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"{name!r} is listed {count} times; list it once")
        return value

    @field_validator("kafka_topic_pattern")
    @classmethod
    def _check_pattern(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{value!r} isn't a regular expression: {error}") from error
        return value


def _not_a_start(value: object) -> ValueError:
    return ValueError(
        f"{value!r} isn't a start offset; write earliest, latest, a timestamp such as "
        "2026-01-05T00:00:00Z, or offsets by partition such as {0: 23, 1: 0}"
    )


def _offsets_by_partition(value: dict[object, object]) -> dict[int, int]:
    offsets: dict[int, int] = {}
    if not value:
        raise ValueError("the mapping is empty; write offsets such as {0: 23, 1: 0}, or earliest")
    for partition, offset in value.items():
        number = str(partition)
        if not number.isdecimal() or type(offset) is not int or offset < 0:
            raise ValueError(
                f"{partition!r}: {offset!r} isn't an offset of a partition; write offsets such as "
                "{0: 23, 1: 0}"
            )
        offsets[int(number)] = offset
    return offsets
