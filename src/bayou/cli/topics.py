"""`bayou topics`: what the brokers have, and which of it the configuration takes in."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, Config, Settings
from bayou.cli.exit_codes import explained
from bayou.cli.output import output_for

__all__ = ["topics"]


def topics(
    config: Config,
    every: Annotated[
        bool, typer.Option("--all", help="Also topics that the configuration doesn't take in.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """List the topics of a configuration as the brokers have them."""
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.config import load_configuration
        from bayou.ingest.inspection import list_topics

        configuration = load_configuration(config, settings=settings or ())
        configuration.check_runnable()
        output.rows(
            "",
            [
                {
                    "kafka topic": found.kafka_topic,
                    "topic": found.topic,
                    "table": found.table_path,
                    "partitions": found.partitions,
                    "offsets": found.offsets,
                    "at the brokers": found.partitions is not None,
                }
                for found in list_topics(configuration, every=every)
            ],
            event="topic",
        )
