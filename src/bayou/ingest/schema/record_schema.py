"""The format and the columns of a topic's records, from the configuration and the schema file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from bayou.errors import ConfigurationError
from bayou.ingest.config import Configuration, Topic, TopicConfig
from bayou.ingest.decode import record_columns
from bayou.ingest.decode.formats import (
    RecordFormat,
    Registry,
    avro_schema_columns,
    flat_columns,
    schema_without,
    timestamp_columns,
)
from bayou.protocol.schema import BINARY, STRING, StructField, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchema:
    """The format and the columns of a topic's records.

    Attributes:
        format: how values are decoded to records.
        columns: the columns that the configuration or the schema file defines; can be empty.
        validated_by: the JSON Schema that validates decoded records; None if records aren't
            validated, or if `format` validates them.
    """

    format: RecordFormat = field(default_factory=RecordFormat)
    columns: StructType = field(default_factory=StructType)
    validated_by: str | None = None

    @classmethod
    def of(cls, configuration: Configuration, topic: Topic, schema: str | None) -> RecordSchema:
        """Return the schema of a topic's records.

        Args:
            schema: the content of the schema file; None if there is no schema file.
        """
        return cls(
            format=_topic_format(configuration, topic, schema),
            columns=topic_columns(topic, schema),
            validated_by=_validated_by(topic, schema),
        )


def _topic_format(configuration: Configuration, topic: Topic, schema: str | None) -> RecordFormat:
    config = topic.config
    name = "json" if config.decode == "debezium" else config.decode
    flatten = config.flatten
    columns: tuple[str, ...] = ()
    if name == "csv":
        if schema is None:
            raise ConfigurationError(
                f"{configuration.file}: connector.topics.{topic.section}.decode: csv needs a "
                "schema-file. Its properties are the columns of the CSV lines, in the same order",
                file=configuration.file,
                key=f"connector.topics.{topic.section}.decode",
            )
        columns = tuple(json.loads(schema).get("properties", {}))
    section = configuration.connector.schema_registry
    registry = key_registry = None
    if section is not None:
        registry = Registry(
            address=section.address(),
            subject=section.value_subject(config.kafka_topic, config.schema_record),
            on_unknown_schema=config.on_unknown_schema,
        )
        key_registry = replace(registry, subject=section.key_subject(config.kafka_topic))
    return RecordFormat(
        name=name,
        registry=registry,
        key=config.decode_key,
        key_registry=key_registry,
        schema=schema if name == "avro" else None,
        csv_columns=columns,
        csv_delimiter=config.csv_delimiter,
        flatten=flatten,
        json_schema=_value_schema(config, schema)
        if flatten is not None and name == "json"
        else None,
        masks=config.column_masks,
        timestamps=config.column_timestamps,
    )


def topic_columns(topic: Topic, schema: str | None) -> StructType:
    """Return the columns that the configuration or the schema file defines; can be empty."""
    config = topic.config
    match config.decode:
        case "string" | "binary" as kind:
            data_type = STRING if kind == "string" else BINARY
            return StructType((StructField(name="value", data_type=data_type),))
        case "avro":
            columns = StructType() if schema is None else avro_schema_columns(schema)
        case _:
            columns = StructType() if schema is None else record_columns(schema)
    if config.flatten is not None:
        columns = flat_columns(columns, config.flatten)
    return timestamp_columns(columns, config.column_timestamps)


def _validated_by(topic: Topic, schema: str | None) -> str | None:
    """Return the JSON Schema that validates decoded records; None if they aren't validated.

    If `flatten` is set, the result is None, because `RecordFormat.json_schema` validates the
    records before they are flattened.
    """
    config = topic.config
    if config.decode in ("json", "debezium", "csv") and config.flatten is None:
        return _value_schema(config, schema)
    return None


def _value_schema(config: TopicConfig, schema: str | None) -> str | None:
    """Change a JSON Schema so that it allows any value in the fields of `timestamp-formats`."""
    if schema is None or not config.timestamp_formats:
        return schema
    return schema_without(schema, config.timestamp_formats)
