"""The record format and the columns of a topic, from its configuration."""

from __future__ import annotations

import json

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

__all__ = ["topic_columns", "topic_format", "validated_by"]


def topic_format(configuration: Configuration, topic: Topic, schema: str | None) -> RecordFormat:
    """Return how a topic's values are decoded to records.

    Args:
        configuration: the configuration.
        topic: the topic.
        schema: text of the topic's schema file, None for none.

    Raises:
        ConfigurationError: the format needs a schema file.
    """
    config = topic.config
    name = "json" if config.decode == "debezium" else config.decode
    flatten = config.flatten
    columns: tuple[str, ...] = ()
    if name == "csv":
        if schema is None:
            raise ConfigurationError(
                f"{configuration.file}: connector.topics.{topic.key}.decode: csv needs a "
                "schema-file, whose properties name the values of a line in order",
                file=configuration.file,
                key=f"connector.topics.{topic.key}.decode",
            )
        columns = tuple(json.loads(schema).get("properties", {}))
    section = configuration.connector.schema_registry
    registry = None
    if section is not None:
        password = section.password
        registry = Registry(
            url=section.url,
            user=section.username,
            password=None if password is None else password.get_secret_value(),
            on_unknown_schema=config.on_unknown_schema,
        )
    return RecordFormat(
        name=name,
        registry=registry,
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
    """Return the record's columns that are known from the configuration, possibly none."""
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


def validated_by(topic: Topic, schema: str | None) -> str | None:
    """Return the JSON Schema that validates records after flattening."""
    config = topic.config
    if config.decode in ("json", "debezium", "csv") and config.flatten is None:
        return _value_schema(config, schema)
    return None


def _value_schema(config: TopicConfig, schema: str | None) -> str | None:
    """Return a JSON Schema without the fields of `timestamp-formats`, which have other formats."""
    if schema is None or not config.timestamp_formats:
        return schema
    return schema_without(schema, config.timestamp_formats)
