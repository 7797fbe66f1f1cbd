"""`bayou status`: show the status of topics, read from tables and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bayou.cli.exit_on_error import FAILED, exit_on_error
from bayou.cli.output import rows_output
from bayou.cli.shared_arguments import (
    Config,
    OnlyTopics,
    RowsAsJson,
    RowsTo,
    Settings,
    format_utc,
    load_topics,
    select_topics,
    with_topic,
)

if TYPE_CHECKING:
    from bayou.ingest.inspection import TopicStatusReport


def status(
    config: Config,
    topic: OnlyTopics = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Show the status of topics, whether or not a pipeline is running.

    Shows lag, freshness, dead letters and maintenance. The exit code is 1 if the status of a topic
    can't be read, or a topic misses its freshness objective.

    Example:
        bayou status pipeline.yaml
        bayou status pipeline.yaml --json | jq -r "select(.late) | .topic"
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed):
        from bayou.ingest.inspection import topic_status_reports

        configuration = load_topics(config, settings)
        configuration.check_runnable()
        statuses = topic_status_reports(configuration, select_topics(configuration, topic))
        if printed.is_table:
            shown = _without_empty_columns([_table_row(s) for s in statuses])
        else:
            shown = [_data_row(s) for s in statuses]
        printed.rows("", shown, event="topic_status")
        for topic_status in statuses:
            if topic_status.tables and printed.is_table:
                printed.rows(
                    f"Tables of {topic_status.topic}",
                    [
                        {
                            "table": table.table,
                            "version": str(table.version),
                            "rows": table.rows,
                            "files": table.files,
                            "path": table.table_path,
                        }
                        for table in topic_status.tables
                    ],
                    event="routed_table",
                )
            if topic_status.error is not None:
                printed.error(with_topic(topic_status.topic, topic_status.error), kind="TopicError")
            for task, run in topic_status.maintenance.items():
                if run.reason is not None:
                    failed = f"{task} failed at {format_utc(run.at)}: {run.reason}"
                    printed.notice(with_topic(topic_status.topic, failed))
        if any(s.error is not None or s.late for s in statuses):
            raise typer.Exit(FAILED)


def _table_row(topic_status: TopicStatusReport) -> dict[str, Any]:
    return {
        "topic": topic_status.topic,
        "pipeline": "runs here" if topic_status.running else "",
        "version": None if topic_status.version is None else str(topic_status.version),
        "rows": _count(topic_status.rows),
        "files": _count(topic_status.files),
        "waiting": _count(topic_status.waiting),
        "freshness": _freshness(topic_status),
        "last commit (UTC)": format_utc(topic_status.last_commit),
        "dead letters": _count(topic_status.dead_letters),
        "optimized": _last_run(topic_status, "optimize", "compaction"),
        "vacuumed": _last_run(topic_status, "vacuum"),
    }


def _without_empty_columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove columns without any value, to make the table narrower."""
    used = {name for row in rows for name, value in row.items() if value not in ("", None)}
    return [{name: value for name, value in row.items() if name in used} for row in rows]


def _data_row(topic_status: TopicStatusReport) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(topic_status)
    return {**row, "waiting": topic_status.waiting, "late": topic_status.late}


def _count(number: int | None) -> int | str:
    return "?" if number is None else number


def _freshness(topic_status: TopicStatusReport) -> str:
    if topic_status.freshness_seconds is None:
        return "?"
    freshness = f"{topic_status.freshness_seconds:,.0f} s"
    if topic_status.objective_seconds is not None:
        freshness += f" of {topic_status.objective_seconds:g} s"
    return f"{freshness} LATE" if topic_status.late else freshness


def _last_run(topic_status: TopicStatusReport, *tasks: str) -> str:
    runs = [run for task, run in topic_status.maintenance.items() if task in tasks]
    if not runs:
        return ""
    last = max(runs, key=lambda run: run.at)
    return format_utc(last.at) + (" FAILED" if last.result == "failed" else "")
