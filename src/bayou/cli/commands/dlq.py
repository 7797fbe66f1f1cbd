"""`bayou dlq`: list, show, replay and drop the dead letters of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from bayou.cli import completions
from bayou.cli.exit_on_error import FAILED, WRONG_USAGE, exit_on_error
from bayou.cli.output import output_for, rows_output
from bayou.cli.shared_arguments import (
    AsJson,
    Config,
    DryRun,
    RowsAsJson,
    RowsTo,
    Settings,
    Yes,
    confirm,
    load_topics,
    with_topic,
)
from bayou.cli.usage import Command, Group
from bayou.errors import ArgumentError

if TYPE_CHECKING:
    from bayou.ingest.config import Configuration, Topic
    from bayou.ingest.inspection import DeadLetter

dlq = typer.Typer(
    cls=Group,
    help="List, show, replay or drop dead letters: records that couldn't become rows.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TopicName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        help="A topic of the configuration.",
        show_default=False,
        autocompletion=completions.topics,
    ),
]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--where",
        "-w",
        metavar="SQL",
        help="SQL condition on reason, partition, offset and timestamp.",
        show_default=False,
    ),
]


@dlq.command("list", cls=Command)
def list_(
    config: Config,
    where: Where = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Count the dead letters of each topic by reason.

    Example:
        bayou dlq list pipeline.yaml
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed, where=where):
        from bayou.errors import PipelineError, StorageError, TableError
        from bayou.ingest.inspection import TopicTables, group_letters

        configuration = load_topics(config, settings)
        rows: list[dict[str, Any]] = []
        failures: dict[str, PipelineError | TableError | StorageError] = {}
        for topic in configuration.topics:
            try:
                topic.check_table()
                groups = group_letters(TopicTables.of(configuration, topic), where=where)
            except (PipelineError, TableError, StorageError) as error:
                # Continue with the other topics.
                failures[topic.key] = error
                continue
            rows += [
                {
                    "topic": topic.key,
                    "letters": group.count,
                    "oldest": group.oldest,
                    "newest": group.newest,
                    "reason": group.reason,
                }
                for group in groups
            ]
        if rows or not failures:
            printed.rows("", rows, event="dead_letters", empty="no dead letters")
        for key, failure in failures.items():
            printed.error(with_topic(key, failure.message), kind=type(failure).__name__)
        if failures:
            raise typer.Exit(FAILED)


@dlq.command(cls=Command)
def show(
    config: Config,
    topic: TopicName,
    where: Where = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number of dead letters."),
    ] = 10,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Show dead letters in full: reason, offset, headers, key and value.

    Example:
        bayou dlq show pipeline.yaml user-events --where "partition = 0 AND offset = 17"
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed, where=where):
        from bayou.ingest.inspection import TopicTables, list_letters

        configuration, topic_config = _topic(config, topic, settings)
        tables = TopicTables.of(configuration, topic_config)
        dead_letters = list_letters(tables, where=where, limit=limit)
        if printed.is_table:
            for dead_letter in dead_letters:
                printed.facts(topic_config.key, _facts(dead_letter), event="dead_letter")
            if not dead_letters:
                printed.rows("", [], event="dead_letter", empty="no dead letters")
            return
        rows = [{"topic": topic_config.key, **_row(dead_letter)} for dead_letter in dead_letters]
        printed.rows("", rows, event="dead_letter")


def _row(dead_letter: DeadLetter) -> dict[str, Any]:
    return {
        "partition": dead_letter.partition,
        "offset": dead_letter.offset,
        "timestamp": dead_letter.timestamp,
        "reason": dead_letter.reason,
        "key": _decoded(dead_letter.key),
        "value": _decoded(dead_letter.value),
        "headers": [(name, _decoded(value)) for name, value in dead_letter.headers],
    }


def _facts(dead_letter: DeadLetter) -> dict[str, Any]:
    row = _row(dead_letter)
    headers = row.pop("headers")
    facts = row | {"offset": str(dead_letter.offset)}
    return facts | {f"header {name}": value for name, value in headers}


@dlq.command(cls=Command)
def replay(
    config: Config,
    topic: TopicName,
    where: Where = None,
    dry_run: DryRun = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Process dead letters again with the current schema.

    Dead letters that fit the schema become rows, exactly once. The pipeline can run at the same
    time. If the command is interrupted, run it again.

    Example:
        bayou dlq replay pipeline.yaml user-events --dry-run
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output, where=where):
        from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters

        configuration, topic_config = _topic(config, topic, settings)
        result = replay_dead_letters(configuration, topic_config, where=where, dry_run=dry_run)
        output.facts(
            "Would be replayed" if dry_run else "Replayed",
            {
                "topic": topic_config.key,
                "became rows": result.replayed,
                "were rows already": result.already_rows,
                "filtered out": result.filtered,
                "still refused": result.refused,
                "left to the pipeline": result.skipped,
                "version": result.version,
                **({"dry run": dry_run} if as_json else {}),
            },
            event="replayed",
        )
        if result.reasons:
            output.rows(
                "Reasons",
                [{"letters": count, "reason": reason} for reason, count in result.reasons.items()],
                event="still_refused",
            )


@dlq.command(cls=Command)
def drop(
    config: Config,
    topic: TopicName,
    where: Where = None,
    drop_all: Annotated[bool, typer.Option("--all", help="Drop all dead letters.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters.

    Earlier versions of the dead letter table contain the deleted dead letters until VACUUM. On a
    terminal, the command asks for confirmation.

    Example:
        bayou dlq drop pipeline.yaml user-events --where "reason LIKE '%not JSON%'"
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output, where=where):
        if (where is None) is not drop_all:
            output.error("dlq drop: use either --where or --all", kind="UsageError")
            raise typer.Exit(WRONG_USAGE)
        from bayou.ingest.dead_letters.dead_letter_replay import delete_dead_letters

        configuration, topic_config = _topic(config, topic, settings)
        if dry_run or not yes:
            from bayou.ingest.inspection import TopicTables, group_letters

            groups = group_letters(TopicTables.of(configuration, topic_config), where=where)
            letters = sum(group.count for group in groups)
        if dry_run:
            facts = {"topic": topic_config.key, "letters": letters}
            if as_json:
                facts["dry run"] = True
            output.facts("Would be dropped", facts, event="dropped")
            return
        if not yes and letters:
            confirm(f"Drop {letters:,} dead letters of topic {topic_config.key!r}?", yes=yes)
        dropped = delete_dead_letters(configuration, topic_config, where=where)
        output.facts("Dropped", {"topic": topic_config.key, "letters": dropped}, event="dropped")


def _topic(config: Any, topic: str, settings: Any) -> tuple[Configuration, Topic]:
    configuration = load_topics(config, settings)
    topics = configuration.find_topics(topic)
    if len(topics) > 1:
        raise ArgumentError(
            f"{config}: {topic!r} has several topics: {', '.join(repr(t.key) for t in topics)}. "
            "Use one of them.",
            argument="topic",
        )
    return configuration, configuration.topic(topics[0].key if topics else topic)


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
