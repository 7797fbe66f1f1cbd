"""A first configuration for a topic: commented, with a schema from a look at its records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from bayou.errors import ArgumentError, ConfigurationError, PipelineError, PrerequisiteError
from bayou.ingest.broker import describe_topic, topic_names
from bayou.ingest.config import load_configuration
from bayou.ingest.config.connections import KafkaConfig
from bayou.ingest.inspection.kafka_records import sampled_records
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.schema.inference import inferred_schema

__all__ = ["NewConfiguration", "write_configuration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConfiguration:
    """What was written.

    Attributes:
        file: the YAML file.
        schema_file: the JSON Schema, None where no record was looked at.
        table: the table's path, as the file says it.
        sampled: records that were looked at.
        refused: those of them that aren't JSON objects.
        columns: names of the records' fields.
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

    Args:
        folder: made where it isn't there.
        kafka_topic: which topic.
        bootstrap_servers: the brokers.
        security: how to log in to them, by the keys of `connector.kafka.security`. The password is
            used and not written; the file takes it from the environment's KAFKA_PASSWORD.
        table: where the table goes; `lake/<topic>` beside the file where None.
        samples: most records of each partition to look at, of the newest, fewer where they are
            large; 0 looks at none.
        overwrite: replace files that are there.

    Raises:
        ArgumentError: a file is there, and may not be replaced; security isn't usable.
        ConfigurationError: what was given makes no configuration; then nothing is written.
        KafkaError: the brokers don't answer.
        PipelineError: there is no such topic, or its records aren't JSON objects.
        PrerequisiteError: the folder can't be written.
    """
    key = re.sub(r"[^A-Za-z0-9_]+", "-", kafka_topic).strip("-") or "topic"
    path = table or f"lake/{key.replace('-', '_')}"
    file, schema_file = folder / "pipeline.yaml", folder / "schemas" / f"{key}.json"
    for there in (file, schema_file):
        if there.exists() and not overwrite:
            raise ArgumentError(
                f"{there} is there already; --force replaces it, --folder writes elsewhere.",
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
                f"None of the {sampled:,} records of {kafka_topic!r} that were looked at is a JSON "
                "object. --samples 0 writes a configuration all the same; where they are Avro, "
                "Protobuf, CSV or text, set decode in it.",
                topic=key,
            )
        schema = inferred_schema(records, kafka_topic) if records else None
    text = _TEXT.format(
        topic=json.dumps(kafka_topic),
        key=json.dumps(key) if key.lower() in _NO_TEXT or key[0].isdigit() else key,
        servers=json.dumps(bootstrap_servers),
        security=_security_lines(security or {}),
        table=json.dumps(path, ensure_ascii=False),
        schema=_schema_lines(schema, key, sampled),
        event_time=_event_time(schema),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if schema is not None:
            schema_file.parent.mkdir(exist_ok=True)
            schema_file.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PrerequisiteError(
            f"{error.filename or folder} can't be written: {error.strerror}; choose another "
            "--folder.",
            what="folder",
        ) from error
    try:
        load_configuration(file)
    except ConfigurationError:
        file.unlink()  # else --force would be needed to do it right
        if schema is not None:
            schema_file.unlink()
        raise
    return NewConfiguration(
        file=file,
        schema_file=None if schema is None else schema_file,
        table=path,
        sampled=sampled,
        refused=refused,
        columns=tuple((schema or {}).get("properties", {})),
    )


def _kafka(bootstrap_servers: str, security: Mapping[str, str]) -> KafkaConfig:
    try:
        return KafkaConfig.model_validate(
            {"bootstrap-servers": bootstrap_servers, "security": dict(security) or None}
        )
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False, include_input=False)
        reason = str(first["msg"]).removeprefix("Value error, ")
        named = "-".join(str(part) for part in first["loc"][1:2]) or "protocol"
        raise ArgumentError(f"security: {named}: {reason}.", argument="security") from None


def _security_lines(security: Mapping[str, str]) -> str:
    if not security:
        return _NO_SECURITY
    known = {**security, **({"password": "${KAFKA_PASSWORD}"} if "password" in security else {})}
    lines = [f"      {key}: {json.dumps(value)}\n" for key, value in known.items()]
    return "".join(["    security:\n", *lines])


def _records(
    kafka_topic: str, properties: Mapping[str, str], samples: int
) -> tuple[list[dict[str, Any]], int]:
    """JSON objects among the newest records of each partition, and how many were looked at."""
    names = topic_names(properties)
    if kafka_topic not in names:
        shown = sorted(n for n in names if not n.startswith("__"))
        there = f"; they have {', '.join(shown[:10])}" if shown else ""
        raise PipelineError(
            f"The brokers {properties['bootstrap.servers']} have no topic {kafka_topic!r}{there}.",
            topic=kafka_topic,
        )
    bounds = describe_topic(kafka_topic, properties).bounds
    spans = [
        (p, OffsetSpan(start=max(s.start, s.end - samples), end=s.end))
        for p, s in bounds.items()
        if not s.empty
    ]
    records: list[dict[str, Any]] = []
    looked = 0
    for _, batch in sampled_records(properties, kafka_topic, spans):
        for value in batch.column("value").to_pylist():
            looked += 1
            try:
                record = msgspec.json.decode(value or b"")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            if isinstance(record, dict):
                records.append(record)
    return records, looked


def _schema_lines(schema: Mapping[str, Any] | None, key: str, sampled: int) -> str:
    if schema is None:
        return (
            "      # A JSON Schema validates records and gives the columns; without one they are\n"
            "      # inferred from the first batch.\n"
            f'      # schema-file: "schemas/{key}.json"\n'
        )
    return (
        f"      # Inferred from {sampled:,} records; look through it, it decides the columns. A\n"
        "      # record that doesn't fit goes to the dead letters: bayou dlq list pipeline.yaml\n"
        f'      schema-file: "schemas/{key}.json"\n'
    )


def _event_time(schema: Mapping[str, Any] | None) -> str:
    moments = [
        name
        for name, kind in (schema or {}).get("properties", {}).items()
        if kind.get("format") == "date-time"
    ]
    name = json.dumps(moments[0]) if moments else '"created_at"'
    return f"      # event-time: {name}"


_NO_TEXT = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
"""Names that YAML, of one version or another, takes for something else, as it does numbers."""

_NO_SECURITY = """\
    # Brokers that want a password; properties of librdkafka go beside it by their own names.
    # security:
    #   protocol: "SASL_SSL"
    #   mechanism: "SCRAM-SHA-512"
    #   username: "bayou"
    #   password: "${KAFKA_PASSWORD}"
"""

_TEXT = """\
# A topic of Kafka to a Delta table, each record exactly once.
#
#   bayou validate pipeline.yaml         checks this file
#   bayou plan pipeline.yaml             says what a run would do, writes nothing
#   bayou run pipeline.yaml --once       takes in what is there now
#   bayou run pipeline.yaml              goes on until it is stopped
#
# ${{NAME}} and ${{NAME:-default}} are taken from the environment.
# Every key is in docs/reference/configuration.md
connector:
  kafka:
    bootstrap-servers: {servers}
{security}
  # Tables on S3; what isn't said here comes from the environment (AWS_ACCESS_KEY_ID, ...).
  # storage:
  #   endpoint: "https://s3.example.com"
  #   region: "eu-central-1"

  # A status page, metrics for Prometheus and health checks on http://127.0.0.1:8710/
  # monitoring:
  #   port: 8710

  topics:
    {key}:
      kafka-topic: {topic}
{schema}      # Where to begin the first time: "earliest", or "latest" for new records only.
      starting-offsets: "earliest"
      # The field that gives the partition columns year, month and day; else Kafka's timestamp.
{event_time}
      destination:
        # A folder beside this file, or s3a://bucket/path.
        table-path: {table}
        # Worth it from some GB a day on; can't be changed later.
        # partition-columns: ["year", "month", "day"]
        delta-config:
          # Unknown fields become columns; with false their records go to the dead letters.
          enable-schema-evolution: true
      processing:
        # Records of a commit, at most; and seconds until one is made anyway.
        batch-size: 100000
        flush-interval: 30
      # The status page and the alerts tell when a record waits longer than this.
      # slo:
      #   freshness-seconds: 120
"""
