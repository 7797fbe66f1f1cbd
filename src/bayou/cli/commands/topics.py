"""`bayou topics`: list the topics of a configuration; `--all` adds the brokers' other topics."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import rows_output
from bayou.cli.shared_arguments import Config, RowsAsJson, RowsTo, Settings, load_topics


def topics(
    config: Config,
    include_unconfigured: Annotated[
        bool, typer.Option("--all", help="Include topics that the configuration doesn't ingest.")
    ] = False,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """List the topics of a configuration with their partitions and offsets at the brokers.

    Example:
        bayou topics pipeline.yaml --all
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed):
        from bayou.ingest.inspection import list_topics

        configuration = load_topics(config, settings)
        configuration.check_runnable()
        printed.rows(
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
                for topic in list_topics(configuration, include_unconfigured=include_unconfigured)
            ],
            event="topic",
        )
