"""Reads the schema files of a configuration and checks them against the topics' settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bayou.errors import ConfigurationError, PredicateError
from bayou.ingest.batch.expressions import derived_columns, route_value, row_filter
from bayou.ingest.batch.masks import has_field, mask_problem
from bayou.ingest.batch.metadata_columns import KAFKA_COLUMNS
from bayou.ingest.batch.row_layout import TIME_PARTS
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.decode import read_json_schema
from bayou.ingest.schema.policy import unfit_key
from bayou.ingest.schema.record_schema import topic_columns
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import DATE, TIMESTAMP, StructType


def topic_schemas(configuration: Configuration) -> Mapping[str, str | None]:
    """Read the schema files of all sections of `connector.topics`.

    Returns:
        For each key of a section, the content of the section's schema file; None if it has no
        schema file.

    Raises:
        ConfigurationError: a file can't be read, isn't a valid schema, or lacks a field that a
            setting names.
    """
    topics = {topic.section: topic for topic in configuration.topics}
    topics |= {section.key: section.topic("topic") for section in configuration.patterns}
    return {key: _schema(configuration, topic) for key, topic in topics.items()}


def _schema(configuration: Configuration, topic: Topic) -> str | None:
    if topic.schema_file is None:
        return None
    if topic.config.decode == "avro":
        return _avro_schema(configuration, topic, topic.schema_file)
    text = read_json_schema(topic.schema_file)
    columns = topic_columns(topic, text)
    fields = columns.names
    taken = {n.lower() for n in (*KAFKA_COLUMNS.names, *topic.metadata_columns)}
    reserved = [n for n in fields if n.lower() in taken]
    if reserved:
        raise ConfigurationError(
            f"{topic.schema_file}: the property {reserved[0]!r} has the name of a column that the "
            "pipeline adds. Rename the property.",
            file=str(topic.schema_file),
        )
    known = {*fields, *KAFKA_COLUMNS.names, *TIME_PARTS, *topic.config.processing.columns}
    config = topic.config
    destination = config.destination
    references = {"partition-columns": destination.partition_columns}
    if config.column_timestamps:
        references["timestamp-formats"] = tuple(config.column_timestamps)
    if config.event_time is not None:
        references["event-time"] = (config.event_time,)
    for key, names in references.items():
        missing = [name for name in names if name not in known]
        if missing:
            section = "destination." if key == "partition-columns" else ""
            path = f"connector.topics.{topic.section}.{section}{key}"
            raise ConfigurationError(
                f"{configuration.file}: {path}: {missing[0]!r} isn't a property in "
                f"{topic.schema_file}. Correct the name, or add a property with this name",
                file=configuration.file,
                key=path,
            )
    _check_references(configuration, topic, columns)
    return text


def _avro_schema(configuration: Configuration, topic: Topic, file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8")
        columns = topic_columns(topic, text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file}: not an Avro schema: {error}", file=str(file)) from error
    _check_references(configuration, topic, columns)
    return text


def _check_references(configuration: Configuration, topic: Topic, columns: StructType) -> None:
    _check_expressions(configuration, topic, columns)
    _check_event_time(configuration, topic, columns)
    _check_keys(configuration, topic, columns)
    _check_masks(configuration, topic, columns)


def _check_expressions(configuration: Configuration, topic: Topic, columns: StructType) -> None:
    """Check that the schema file has all fields that expressions and `drop` refer to.

    Raises:
        ConfigurationError: a field doesn't exist, or an expression can't be evaluated with the
            types of its fields.
    """
    names = {name.lower() for name in columns.names}
    missing = (name for name in topic.config.processing.drop if name.lower() not in names)
    setting, reason = "processing.drop", next((f"{n!r} isn't a property" for n in missing), None)
    if reason is None:
        try:
            derived_columns(topic.config, columns, complete=True)
            row_filter(topic.config, columns, complete=True)
            route_value(topic.config, columns, complete=True)
        except PredicateError as error:
            setting = error.expression
            reason = error.message.removeprefix(f"{setting}: ").rstrip(".")
    if reason is not None:
        key = f"connector.topics.{topic.section}.{setting}"
        raise ConfigurationError(
            f"{configuration.file}: {key}: {reason}. Use the fields of {topic.schema_file}",
            file=configuration.file,
            key=key,
        )


def _check_keys(configuration: Configuration, topic: Topic, columns: StructType) -> None:
    destination = topic.config.destination
    references = {"key-columns": destination.upsert_keys}
    if destination.upsert_keys and destination.ordering_column is not None:
        references["ordering-column"] = (destination.ordering_column,)
    for key, names in references.items():
        for reason in filter(None, (unfit_key(name, columns) for name in names)):
            path = f"connector.topics.{topic.section}.destination.{key}"
            raise ConfigurationError(
                f"{configuration.file}: {path}: in {topic.schema_file}, {reason}",
                file=configuration.file,
                key=path,
            )


def _check_masks(configuration: Configuration, topic: Topic, columns: StructType) -> None:
    """Check that the schema file has the field of each mask, with a type that can be masked.

    Without this check, a mask with a misspelled path would have no effect.

    Raises:
        ConfigurationError: a field doesn't exist, or the mask can't be applied to its type.
    """
    schema = to_arrow_schema(columns)
    for path, mask in topic.config.masks.items():
        paths = topic.config.column_paths(path)
        reason = next(filter(None, (mask_problem(schema, column, mask) for column in paths)), None)
        if reason is None and not any(has_field(schema, column) for column in paths):
            reason = f"{path!r} isn't a field"
        if reason is not None:
            key = f"connector.topics.{topic.section}.masks"
            raise ConfigurationError(
                f"{configuration.file}: {key}: in {topic.schema_file}, {reason}",
                file=configuration.file,
                key=key,
            )


def _check_event_time(configuration: Configuration, topic: Topic, columns: StructType) -> None:
    name = topic.config.event_time
    derived = () if name is None else topic.config.processing.columns
    field = None if name is None or name in derived else columns.get(name)
    if field is not None and field.data_type not in (TIMESTAMP, DATE):
        path = f"connector.topics.{topic.section}.event-time"
        raise ConfigurationError(
            f"{configuration.file}: {path}: {name!r} is a {field.data_type} in "
            f"{topic.schema_file}. Choose a property with the format date-time or date",
            file=configuration.file,
            key=path,
        )
