"""`bayou validate`: check a configuration without running it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli import completions
from bayou.cli.exit_on_error import WRONG_USAGE, exit_on_error
from bayou.cli.output import output_for
from bayou.cli.shared_arguments import (
    AsJson,
    Settings,
    unseen_fields_warning,
    unseen_masks_warning,
    with_topic,
)

if TYPE_CHECKING:
    from bayou.ingest.config.routing import RouteByConfig


def validate(
    config: Annotated[
        str | None,
        typer.Argument(
            metavar="CONFIG",
            help="The YAML file.",
            show_default=False,
            autocompletion=completions.configurations,
        ),
    ] = None,
    settings: Settings = None,
    print_schema: Annotated[
        bool,
        typer.Option(
            "--print-schema", help="Print the JSON Schema of configurations, for editors."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a configuration without running it.

    Example:
        bayou validate pipeline.yaml
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        from bayou.ingest.config import PipelineConfig, load_configuration

        if print_schema:
            typer.echo(json.dumps(PipelineConfig.model_json_schema(), indent=2))
            return
        if config is None:
            output.error("validate: no configuration. Pass the YAML file", kind="UsageError")
            raise typer.Exit(WRONG_USAGE)

        configuration = load_configuration(config, settings=settings or ())

        from bayou.errors import BayouError, ConfigurationError
        from bayou.ingest.inspection import unseen_settings
        from bayou.ingest.maintenance import check_retention
        from bayou.ingest.schema.files import topic_schemas

        topic_schemas(configuration)
        for notice in configuration.notices:
            output.notice(notice.text)
        if configuration.missing_broker is not None:
            output.notice(configuration.missing_broker.text)
        configuration.check_supported()
        try:
            check_retention(configuration)
        except ConfigurationError:
            raise
        except BayouError as error:
            output.notice(f"vacuum-retention-hours isn't compared with the tables: {error.message}")
        try:
            for key, unseen in unseen_settings(configuration).items():
                if unseen.masks:
                    output.notice(with_topic(key, unseen_masks_warning(unseen.masks)))
                if unseen.fields:
                    output.notice(with_topic(key, unseen_fields_warning(unseen.fields)))
        except BayouError as error:
            output.notice(f"masks and expressions aren't compared with the tables: {error.message}")
        sections = configuration.connector.topics.values()
        has_routes = any(section.destination.route_by is not None for section in sections)
        output.rows(
            f"{config} is valid",
            [
                {
                    "topic": topic.key,
                    "kafka topic": topic.config.kafka_topic,
                    "table": topic.table_path,
                    **_routes(topic.config.destination.route_by, shown=has_routes),
                    "schema": str(topic.schema_file or "inferred"),
                }
                for topic in configuration.topics
            ]
            + [
                {
                    "topic": f"{section.key}/...",
                    "kafka topic": f"pattern {section.config.kafka_topic_pattern}",
                    "table": section.table_path,
                    **_routes(section.config.destination.route_by, shown=has_routes),
                    "schema": str(section.schema_file or "inferred"),
                }
                for section in configuration.patterns
            ],
            event="topic",
        )


def _routes(routes: RouteByConfig | None, *, shown: bool) -> dict[str, str]:
    """Return the entry `route-by` of a topic's output row.

    Args:
        routes: the topic's settings of `route-by`; the entry lists their paths. If None, the entry
            is an empty string.
        shown: whether the output has the column `route-by`. If False, no entry is returned.
    """
    return {"route-by": "" if routes is None else ", ".join(routes.paths)} if shown else {}
