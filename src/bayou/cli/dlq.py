"""`bayou dlq`: the dead letters of a topic, looked at, put right, let go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from bayou.cli.arguments import AsJson, Config, Settings, named_topics, of_topic
from bayou.cli.exit_codes import FAILED, WRONG_USAGE, explained
from bayou.cli.output import output_for

if TYPE_CHECKING:
    from bayou.ingest.config import Configuration, Topic

__all__ = ["dlq"]

dlq = typer.Typer(
    help="Dead letters: records that became no row.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TopicName: TypeAlias = Annotated[
    str, typer.Argument(metavar="TOPIC", help="A topic of the file.", show_default=False)
]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--where",
        help="SQL over reason, partition, offset, timestamp: only these.",
        show_default=False,
    ),
]


@dlq.command("list")
def list_(
    config: Config, where: Where = None, settings: Settings = None, as_json: AsJson = False
) -> None:
    """Count the dead letters of every topic by their reason."""
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.errors import StorageError, TableError
        from bayou.ingest.config import load_configuration
        from bayou.ingest.inspection import TopicTables, group_letters

        configuration = load_configuration(config, settings=settings or ())
        rows: list[dict[str, Any]] = []
        unread: dict[str, TableError | StorageError] = {}
        for topic in configuration.topics:
            try:
                groups = group_letters(TopicTables.of(configuration, topic), where=where)
            except (TableError, StorageError) as error:  # those of others can be counted
                unread[topic.key] = error
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
        if rows or not unread:
            output.rows("", rows, event="dead_letters", empty="no dead letters")
        for key, refused in unread.items():
            output.error(of_topic(key, refused.message), kind=type(refused).__name__)
        if unread:
            raise typer.Exit(FAILED)


@dlq.command()
def show(
    config: Config,
    topic: TopicName,
    where: Where = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most letters.")] = 10,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show dead letters whole: reason, place, headers, key, value."""
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.inspection import TopicTables, list_letters

        configuration, found = _topic(config, topic, settings)
        tables = TopicTables.of(configuration, found)
        letters = list_letters(tables, where=where, limit=limit)
        if not letters:
            output.rows("", [], event="dead_letter", empty="no dead letters")
        for letter in letters:
            headers = [(name, _text(value)) for name, value in letter.headers]
            facts: dict[str, Any] = {
                "partition": letter.partition,
                "offset": letter.offset if as_json else str(letter.offset),
                "timestamp": letter.timestamp,
                "reason": letter.reason,
                "key": _text(letter.key),
                "value": _text(letter.value),
            }
            if as_json:
                facts |= {"topic": found.key, "headers": headers}
            else:
                facts |= {f"header {name}": value for name, value in headers}
            output.facts(found.key, facts, event="dead_letter")


@dlq.command()
def replay(
    config: Config,
    topic: TopicName,
    where: Where = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, say what would become of them.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Decide dead letters once more by today's schema.

    Those that fit become rows, exactly once. A running pipeline isn't disturbed. Killed in the
    middle, run it again.
    """
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.dead_letters.dead_letter_replay import replay_letters

        configuration, found = _topic(config, topic, settings)
        outcome = replay_letters(configuration, found, where=where, dry_run=dry_run)
        output.facts(
            "Would be" if dry_run else "Replayed",
            {
                "topic": found.key,
                "became rows": outcome.replayed,
                "were rows already": outcome.already,
                "still refused": outcome.refused,
                "left to the pipeline": outcome.left,
                "version": outcome.version,
                **({"dry run": dry_run} if as_json else {}),
            },
            event="replayed",
        )
        if outcome.reasons:
            output.rows(
                "Why not",
                [{"letters": count, "reason": reason} for reason, count in outcome.reasons.items()],
                event="still_refused",
            )


@dlq.command()
def drop(
    config: Config,
    topic: TopicName,
    where: Where = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, in place of --where.")] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters. Earlier versions of their table keep them until it is vacuumed."""
    output = output_for(as_json=as_json)
    with explained(output):
        if (where is None) is not every:
            output.error("say which with --where, or --all: one of them", kind="UsageError")
            raise typer.Exit(WRONG_USAGE)
        from bayou.ingest.dead_letters.dead_letter_replay import drop_letters

        configuration, found = _topic(config, topic, settings)
        dropped = drop_letters(configuration, found, where=where)
        output.facts("Dropped", {"topic": found.key, "letters": dropped}, event="dropped")


def _topic(config: Any, topic: str, settings: Any) -> tuple[Configuration, Topic]:
    from bayou.ingest.config import load_configuration

    configuration = load_configuration(config, settings=settings or ())
    (found,) = named_topics(configuration, [topic])
    return configuration, found


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
