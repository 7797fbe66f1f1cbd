"""Generates a commented YAML file for a topic, and a JSON Schema inferred from its records."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from bayou.errors import ArgumentError, PipelineError, PrerequisiteError
from bayou.ingest.broker import describe_topic, topic_names
from bayou.ingest.config import load_configuration
from bayou.ingest.config.connector.connections import KafkaConfig
from bayou.ingest.config.load import problem_of
from bayou.ingest.decode.nesting import RecordTooDeepError, check_json_nesting
from bayou.ingest.inspection.kafka_records import sampled_records
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.schema.inference import inferred_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConfiguration:
    """A generated configuration.

    Attributes:
        file: path of the YAML file.
        schema_file: path of the JSON Schema file; None if no schema was inferred.
        sampled: number of sampled records.
        refused: number of sampled records that aren't JSON objects.
        columns: names of the top-level fields in the schema.
    """

    file: Path
    schema_file: Path | None
    table: str
    sampled: int
    refused: int
    columns: tuple[str, ...]


def write_configuration(
    folder: Path,
    *,
    kafka_topic: str,
    bootstrap_servers: str,
    security: Mapping[str, str] | None = None,
    table: str | None = None,
    samples: int = 1_000,
    overwrite: bool = False,
) -> NewConfiguration:
    """Write `pipeline.yaml` and `schemas/<topic>.json` into a folder.

    If the generated configuration is invalid, the changes to these files are undone.

    Args:
        security: the values of keys in `connector.kafka.security`, such as `oauth.client-id`. The
            value of `password` isn't written: the YAML file refers to the environment variable
            KAFKA_PASSWORD instead. All other values are written unchanged, and can contain
            variables such as `${NAME}`.
        table: the table's path; None for `lake/<topic>` in `folder`.
        samples: maximum number of records to sample from the end of each Kafka partition. If the
            records are large, fewer records are sampled. If 0, no schema is inferred.
        overwrite: whether to replace existing files. If False, existing files raise an error.
    """
    key = re.sub(r"[^A-Za-z0-9_]+", "-", kafka_topic).strip("-") or "topic"
    path = table or f"lake/{key.replace('-', '_')}"
    file, schema_file = folder / "pipeline.yaml", folder / "schemas" / f"{key}.json"
    for existing in (file, schema_file):
        if existing.exists() and not overwrite:
            raise ArgumentError(
                f"{existing} exists already. Use --force to replace it, or --folder to write "
                "elsewhere.",
                argument="folder",
            )
    kafka = _kafka(bootstrap_servers, security or {})
    schema: Mapping[str, Any] | None = None
    sampled = refused = 0
    if samples:
        records, sampled = _records(kafka_topic, kafka.client_properties(), samples)
        refused = sampled - len(records)
        if sampled and not records:
            raise PipelineError(
                f"Topic {kafka_topic!r}: none of the {sampled:,} sampled records is a JSON object. "
                "Use --samples 0 to write a configuration without a schema. If the records are "
                "Avro, Protobuf, CSV or strings, set decode in the configuration.",
                topic=key,
            )
        schema = inferred_schema(records, kafka_topic) if records else None
    content = _TEMPLATE.format(
        topic=json.dumps(kafka_topic),
        key=json.dumps(key) if key.lower() in _YAML_LITERALS or key[0].isdigit() else key,
        servers=json.dumps(bootstrap_servers),
        security=_security_lines(security or {}),
        table=json.dumps(path, ensure_ascii=False),
        schema=_schema_lines(schema, key, sampled),
        event_time=_event_time(schema),
    )
    new = {file: content}
    if schema is not None:
        new[schema_file] = json.dumps(schema, indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if schema is not None:
            schema_file.parent.mkdir(exist_ok=True)
        with _restored_after_errors(tuple(new)):
            for path_of_file, text in new.items():
                path_of_file.write_text(text, encoding="utf-8")
            load_configuration(file)
    except OSError as error:
        raise PrerequisiteError(
            f"{error.filename or folder} can't be written: {error.strerror}. Choose another "
            "--folder.",
            what="folder",
        ) from error
    return NewConfiguration(
        file=file,
        schema_file=None if schema is None else schema_file,
        table=path,
        sampled=sampled,
        refused=refused,
        columns=tuple((schema or {}).get("properties", {})),
    )


@contextlib.contextmanager
def _restored_after_errors(files: Sequence[Path]) -> Iterator[None]:
    """Context manager that restores files after an error.

    Existing files get their former content, and new files are deleted.
    """
    before = {file: file.read_bytes() if file.exists() else None for file in files}
    try:
        yield
    except BaseException:
        for file, content in before.items():
            with contextlib.suppress(OSError):
                if content is None:
                    file.unlink(missing_ok=True)
                elif file.read_bytes() != content:
                    file.write_bytes(content)
        raise


def _kafka(bootstrap_servers: str, security: Mapping[str, str]) -> KafkaConfig:
    section = _nested({k: v if k == "password" else _expanded(v) for k, v in security.items()})
    try:
        return KafkaConfig.model_validate(
            {"bootstrap-servers": bootstrap_servers, "security": section or None}
        )
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False, include_input=False)
        message, path = problem_of(first, ("connector", "kafka", *first["loc"]))
        key = ".".join(str(part) for part in path[2:] if part != "security") or "protocol"
        option = _OPTIONS.get(key, f"--security {key}")
        end = "" if message.endswith("?") else "."
        raise ArgumentError(f"{option}: {message}{end}", argument="security") from None


_OPTIONS = {
    "bootstrap-servers": "--bootstrap-servers",
    "protocol": "--security-protocol",
    "mechanism": "--sasl-mechanism",
    "username": "--username",
    "ca-location": "--ca-location",
}
"""For keys of `connector.kafka` and `security`, the option of `bayou init` that sets the key."""


def _security_lines(security: Mapping[str, str]) -> str:
    if not security:
        return _NO_SECURITY
    known = {**security, **({"password": "${KAFKA_PASSWORD}"} if "password" in security else {})}
    lines = ["    security:\n"]
    for key, value in _nested(known).items():
        if isinstance(value, dict):
            lines.append(f"      {key}:\n")
            lines += [f"        {name}: {json.dumps(inner)}\n" for name, inner in value.items()]
        else:
            lines.append(f"      {key}: {json.dumps(value)}\n")
    return "".join(lines)


def _nested(settings: Mapping[str, str]) -> dict[str, Any]:
    """Split dotted keys: `oauth.client-id` becomes the key `client-id` of the dict `oauth`."""
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        section, separator, name = key.partition(".")
        if separator:
            nested.setdefault(section, {})[name] = value
        else:
            nested[key] = value
    return nested


def _expanded(value: str) -> str:
    """Replace each `${NAME}` by the value of the environment variable `NAME`."""

    def variable(match: re.Match[str]) -> str:
        known = os.environ.get(match[1])
        if known is None:
            raise ArgumentError(
                f"--security: the environment variable {match[1]} isn't set. Set it now and for "
                "every run, because the generated configuration reads it.",
                argument="security",
            )
        return known

    return re.sub(r"\$\{(\w+)\}", variable, value)


def _records(
    kafka_topic: str, properties: Mapping[str, str], samples: int
) -> tuple[list[dict[str, Any]], int]:
    """Read up to `samples` of the newest records of each Kafka partition.

    Returns:
        The records that are JSON objects, and the number of all records read.
    """
    names = topic_names(properties)
    if kafka_topic not in names:
        shown = sorted(n for n in names if not n.startswith("__"))
        others = f"; they have the topics {', '.join(shown[:10])}" if shown else ""
        raise PipelineError(
            f"The brokers {properties['bootstrap.servers']} have no topic {kafka_topic!r}{others}.",
            topic=kafka_topic,
        )
    bounds = describe_topic(kafka_topic, properties).bounds
    spans = [
        (p, OffsetSpan(start=max(s.start, s.end - samples), end=s.end))
        for p, s in bounds.items()
        if not s.empty
    ]
    records: list[dict[str, Any]] = []
    sampled = 0
    for _, batch in sampled_records(properties, kafka_topic, spans):
        for value in batch.column("value").to_pylist():
            sampled += 1
            try:
                check_json_nesting(value or b"")
                record = msgspec.json.decode(value or b"")
            except (RecordTooDeepError, msgspec.DecodeError, UnicodeDecodeError):
                continue
            if isinstance(record, dict):
                records.append(record)
    return records, sampled


def _schema_lines(schema: Mapping[str, Any] | None, key: str, sampled: int) -> str:
    if schema is None:
        return (
            "      # A JSON Schema validates records and defines the columns; by default they are\n"
            "      # inferred from the first batch.\n"
            f'      # schema-file: "schemas/{key}.json"\n'
        )
    return (
        f"      # Inferred from {sampled:,} records; review it, it defines the columns. A record\n"
        "      # that doesn't fit becomes a dead letter: bayou dlq list pipeline.yaml\n"
        f'      schema-file: "schemas/{key}.json"\n'
    )


def _event_time(schema: Mapping[str, Any] | None) -> str:
    timestamps = [
        name
        for name, kind in (schema or {}).get("properties", {}).items()
        if kind.get("format") == "date-time"
    ]
    name = json.dumps(timestamps[0]) if timestamps else '"created_at"'
    return f"      # event-time: {name}"


_YAML_LITERALS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
"""Names that must be quoted as YAML keys. Some version of YAML reads them as booleans or null."""

_NO_SECURITY = """\
    # Authentication of the brokers; other properties of librdkafka can be added by their names.
    # security:
    #   protocol: "SASL_SSL"
    #   mechanism: "SCRAM-SHA-512"
    #   username: "bayou"
    #   password: "${KAFKA_PASSWORD}"
"""

_TEMPLATE = """\
# Reads a Kafka topic into a Delta table, each record exactly once.
#
#   bayou validate pipeline.yaml         checks this file
#   bayou plan pipeline.yaml             shows what a run would do, writes nothing
#   bayou run pipeline.yaml --once       reads all available records and ends
#   bayou run pipeline.yaml              runs until it is stopped
#
# ${{NAME}} and ${{NAME:-default}} are read from the environment.
# The page Configuration of the documentation describes every key
connector:
  kafka:
    bootstrap-servers: {servers}
{security}
  # Tables on S3; missing settings come from the environment (AWS_ACCESS_KEY_ID, ...).
  # The sections azure and google of storage are for other stores.
  # storage:
  #   endpoint: "https://s3.example.com"
  #   region: "eu-central-1"

  # A status page, metrics for Prometheus and health checks on http://127.0.0.1:8710/
  # monitoring:
  #   port: 8710

  topics:
    {key}:
      kafka-topic: {topic}
{schema}      # Where to start the first run: "earliest", "latest" for new records only, or a time.
      starting-offsets: "earliest"
      # The field for the partition columns year, month and day. Default: Kafka's timestamp.
{event_time}
      destination:
        # A folder beside this file, or a URI: s3://, abfss://, az://, gs://, hdfs://.
        table-path: {table}
        # Useful from a few GB per day; can't be changed later.
        # partition-columns: ["year", "month", "day"]
        # A table for each value of an expression; other records stay in the table above.
        # route-by: {{expression: "event_type", table-path: "lake/events_{{value}}"}}
        delta-config:
          # Unknown fields become columns; with false their records become dead letters.
          enable-schema-evolution: true
      processing:
        # Maximum number of records in a commit, and maximum seconds until a commit.
        batch-size: 100000
        flush-interval: 30
        # Derived columns and a filter in SQL; fields that aren't stored.
        # columns: {{hour: "date_trunc('HOUR', _kafka_timestamp)"}}
        # where: "event_type <> 'heartbeat'"
        # drop: ["debug"]
      # The status page and the alerts report records that wait longer than this.
      # slo:
      #   freshness-seconds: 120
"""
