"""`bayou topics`: list a configuration's topics; with `--all` also all other topics of brokers."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.arguments import AsJson, Config, Settings, load_topics
from bayou.cli.exit_codes import exit_on_error
from bayou.cli.output import output_for


def topics(
    config: Config,
    every: Annotated[
        bool, typer.Option("--all", help="Include topics that the configuration doesn't ingest.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """List the topics of a configuration with their partitions and offsets at the brokers."""
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        from bayou.ingest.inspection import list_topics

        configuration = load_topics(config, settings)
        configuration.check_runnable()
        output.rows(
            "",
            [
                {
                    "kafka topic": topic.kafka_topic,
                    "topic": topic.topic,
                    "table": topic.table_path,
                    "partitions": topic.partitions,
                    "offsets": topic.offsets,
                    "at the brokers": topic.partitions is not None,
                }
                for topic in list_topics(configuration, every=every)
            ],
            event="topic",
        )
