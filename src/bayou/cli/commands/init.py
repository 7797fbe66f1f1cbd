"""`bayou init`: write a configuration and a schema for a topic."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import output_for
from bayou.cli.shared_arguments import AsJson
from bayou.errors import ArgumentError


def init(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A Kafka topic.", show_default=False)
    ],
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            "-b",
            metavar="HOST:PORT,...",
            help="Brokers as host:port. Default: KAFKA_BOOTSTRAP_SERVERS, or localhost:9092.",
        ),
    ] = None,
    security_protocol: Annotated[
        str | None,
        typer.Option(
            metavar="PROTOCOL", help="SSL, SASL_PLAINTEXT or SASL_SSL, for TLS or authentication."
        ),
    ] = None,
    sasl_mechanism: Annotated[
        str | None, typer.Option(metavar="MECHANISM", help="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.")
    ] = None,
    username: Annotated[
        str | None,
        typer.Option(
            metavar="USER", help="SASL user name; the password is read from KAFKA_PASSWORD."
        ),
    ] = None,
    ca_location: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File of CA certificates that verify the brokers."),
    ] = None,
    security_setting: Annotated[
        list[str] | None,
        typer.Option(
            "--security",
            metavar="KEY=VALUE",
            help="Another key of connector.kafka.security, such as key-location=client.key or "
            "oauth.client-id=bayou; can be repeated. '${NAME}' is read from the environment.",
        ),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            "--folder", metavar="FOLDER", help="Folder for the files. Default: the current folder."
        ),
    ] = Path(),
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="PATH", help="Path of the table. Default: lake/TOPIC in the folder."
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Newest records per partition to infer a schema from; 0 for none.",
        ),
    ] = 1000,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a configuration and a schema for a topic.

    The configuration has comments. The JSON Schema is inferred from the topic's newest records.

    Example:
        bayou init user-events --bootstrap-servers localhost:9092 --folder pipelines
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        from bayou.ingest.inspection.config_scaffold import write_configuration

        security = {
            "protocol": security_protocol,
            "mechanism": sasl_mechanism,
            "username": username,
            "password": None if username is None else _password(),
            "ca-location": ca_location,
            **_settings(security_setting or ()),
        }
        servers = bootstrap_servers or os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
        written = write_configuration(
            folder,
            kafka_topic=topic,
            bootstrap_servers=servers,
            security={key: value for key, value in security.items() if value is not None},
            table=table,
            samples=samples,
            overwrite=force,
        )
        output.facts(
            "Written",
            {
                "configuration": str(written.file),
                "schema": "none: the topic has no records"
                if written.schema_file is None
                else str(written.schema_file),
                "columns": ", ".join(written.columns),
                "sampled": f"{written.sampled:,} records, "
                f"{written.sampled - written.refused:,} of them JSON objects",
            },
            event="written",
        )
        table_shown = written.table if "://" in written.table else str(folder / written.table)
        commands = [
            ["bayou", "plan", str(written.file)],
            ["bayou", "run", str(written.file), "--once"],
            ["bayou", "read", table_shown],
        ]
        output.text("Try next", "\n".join(shlex.join(command) for command in commands))


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    settings = {}
    for number, pair in enumerate(pairs, start=1):
        key, separator, value = pair.partition("=")
        if not separator or not key or key == "password":
            raise ArgumentError(  # omits the argument, which may be a secret
                f"--security: argument {number} must have the form KEY=VALUE, such as "
                "key-location=client.key. The password is read from KAFKA_PASSWORD.",
                argument="security",
            )
        settings[key] = value
    return settings


def _password() -> str:
    password = os.environ.get("KAFKA_PASSWORD")
    if password is None:
        raise ArgumentError(
            "--username: the environment variable KAFKA_PASSWORD isn't set. Set it to the "
            "password; the generated configuration also reads it.",
            argument="username",
        )
    return password
