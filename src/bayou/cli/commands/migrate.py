"""`bayou migrate`: load JSON files into a topic's table."""

from __future__ import annotations

from typing import Annotated

import typer

from bayou.cli import completions
from bayou.cli.exit_on_error import FAILED, exit_on_error
from bayou.cli.output import output_for
from bayou.cli.shared_arguments import AsJson, DryRun, Settings
from bayou.ingest.events import MigrationReport


def migrate(
    json_path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="JSON file or folder, local or a URI.",
            show_default=False,
        ),
    ],
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A topic of the configuration, or its table.",
            show_default=False,
            autocompletion=completions.topics,
        ),
    ],
    config: Annotated[
        str,
        typer.Option("--config", "-c", metavar="CONFIG", help="The YAML file.", show_default=False),
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every file with the table afterwards.")
    ] = False,
    dry_run: DryRun = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Load JSON files into a topic's table.

    Reads JSON arrays (batch_*.json) and JSON lines; both may be compressed (.gz). The command can
    be interrupted and repeated at any time: each record is loaded exactly once.

    Example:
        bayou migrate old/events user-events --config pipeline.yaml --dry-run
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        from bayou.ingest.config import load_configuration
        from bayou.ingest.topic_table.topic_table import TopicTable

        configuration = load_configuration(config, settings=settings or ())
        configuration.check_supported()
        topic_table = TopicTable(configuration, table)
        report = topic_table.migrate(
            json_path, on_commit=lambda so_far: output.step(_progress(so_far)), dry_run=dry_run
        )
        if not report.files and not report.known:
            output.notice(f"{report.source}: no JSON files (.json, .jsonl, .ndjson, also with .gz)")
        if report.other_files:
            output.notice(
                f"{report.source}: {report.other_files:,} files with other endings aren't read, "
                f"such as {report.other_file}"
            )
        if dry_run:
            output.facts(
                f"{report.source} would be loaded into {topic_table.topic.table_path}",
                {
                    "files": report.files,
                    "known files": report.known,
                    "unfinished lines": report.waiting,
                    "records": report.records,
                    "left to Kafka": report.from_kafka,
                    **({"dry run": dry_run} if as_json else {}),
                },
                event="migrated",
            )
            return
        output.facts(
            f"{report.source} was loaded into {topic_table.topic.table_path}",
            {
                "files": report.files,
                "known files": report.known,
                "unfinished lines": report.waiting,
                "records": report.records,
                "rows": report.rows,
                "dead letters": report.dead_letters,
                "filtered out": report.filtered,
                "left to Kafka": report.from_kafka,
                "version": report.version,
                "seconds": round(report.seconds, 1),
            },
            event="migrated",
        )
        if not verify:
            return
        checks = topic_table.verify_migration(json_path)
        output.rows(
            "Files compared with the table",
            [
                {
                    "file": check.file,
                    "records": check.records,
                    "rows": check.rows,
                    "dead letters": check.dead_letters,
                    "filtered out": check.filtered,
                    "problem": check.problem or "",
                }
                for check in checks
            ],
            event="migrated_file",
            empty="no files",
        )
        if any(check.problem for check in checks):
            output.error(
                f"{topic_table.topic.table_path}: the table differs from the files. See the "
                "problem of each file above",
                kind="PipelineError",
            )
            raise typer.Exit(FAILED)


def _progress(report: MigrationReport) -> str:
    return (
        f"version {report.version}: {report.records:,} records read, {report.rows:,} rows, "
        f"{report.dead_letters:,} dead letters"
    )
