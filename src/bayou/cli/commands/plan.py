"""`bayou plan`: show what a run would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bayou.cli.exit_on_error import FAILED, exit_on_error
from bayou.cli.output import RowsOutput, rows_output
from bayou.cli.shared_arguments import (
    Config,
    OnlyTopics,
    RowsAsJson,
    RowsTo,
    Settings,
    load_topics,
    select_topics,
    table_differences_warning,
    unseen_fields_warning,
    unseen_masks_warning,
    with_topic,
)

if TYPE_CHECKING:
    from bayou.ingest.inspection import TopicPlan

_SHOWN = 5


def plan(
    config: Config,
    topic: OnlyTopics = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Show what a run would do, without writing anything.

    Shows offsets, sizes, commits, files, new columns, and errors of topics. Sizes, files, new
    columns and dead letters are estimated from the first 1,000 records of each partition.

    Example:
        bayou plan pipeline.yaml --topic user-events
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed):
        from bayou.ingest.inspection import plan_run, unconditional_commits_warning

        configuration = load_topics(config, settings)
        for notice in configuration.notices:
            printed.notice(notice.text)
        configuration.check_runnable()
        plans = plan_run(configuration, select_topics(configuration, topic))
        for topic_plan in plans:
            if topic_plan.unseen_masks:
                printed.notice(
                    with_topic(topic_plan.topic, unseen_masks_warning(topic_plan.unseen_masks))
                )
            if topic_plan.unseen_fields:
                printed.notice(
                    with_topic(topic_plan.topic, unseen_fields_warning(topic_plan.unseen_fields))
                )
            if topic_plan.table_differences:
                warning = table_differences_warning(
                    topic_plan.table_differences, changed=topic_plan.table_changes
                )
                printed.notice(with_topic(topic_plan.topic, warning))
            if topic_plan.unconditional_commits:
                warning = unconditional_commits_warning(
                    topic_plan.table_path, topic_plan.unconditional_commits
                )
                printed.notice(with_topic(topic_plan.topic, warning))
            if printed.is_table:
                _show(printed, topic_plan)
            elif topic_plan.error is not None:
                printed.error(with_topic(topic_plan.topic, topic_plan.error), kind="TopicError")
        if not printed.is_table:
            printed.rows("", [_data_row(topic_plan) for topic_plan in plans], event="plan")
        if any(topic_plan.error is not None for topic_plan in plans):
            raise typer.Exit(FAILED)


def _show(output: RowsOutput, topic_plan: TopicPlan) -> None:
    if topic_plan.error is not None:
        output.error(with_topic(topic_plan.topic, topic_plan.error), kind="TopicError")
        return
    dead_letters = sum(topic_plan.refused.values())
    partitions = len(topic_plan.spans)
    facts: dict[str, Any] = {
        "from": f"Kafka topic {topic_plan.kafka_topic}, {partitions} "
        f"partition{'' if partitions == 1 else 's'}",
        "to": f"{topic_plan.table_path}{', which will be created' if topic_plan.creates else ''}",
        "reads": f"{topic_plan.records:,} offsets, about {topic_plan.bytes / 1e6:,.1f} MB",
        "commits": f"about {topic_plan.commits:,}",
        "writes": _cost(topic_plan),
        "new columns": ", ".join(f"{n} {k}" for n, k in topic_plan.new_columns.items()) or "none",
        "dead letters": f"{dead_letters:,} of {topic_plan.sampled:,} sampled records",
    }
    if topic_plan.filters:
        sampled = f"{topic_plan.sampled:,} sampled records"
        facts["filtered out"] = f"{topic_plan.filtered:,} of {sampled}"
    if topic_plan.lost:
        lost = sum(span.end - span.start for span in topic_plan.lost.values())
        facts["lost"] = f"{lost:,} offsets that Kafka's retention deleted before they were read"
    output.facts(topic_plan.topic, facts, event="plan")
    output.rows(
        "Offsets",
        [
            {"partition": p, "from": str(s.start), "to": str(s.end), "offsets": s.end - s.start}
            for p, s in topic_plan.spans.items()
        ],
        event="plan",
    )
    if topic_plan.tables:
        output.rows(
            "Tables of route-by",
            [
                {
                    "table": table.table,
                    "created": "yes" if table.creates else "",
                    "sampled records": table.sampled,
                    "new columns": len(table.new_columns),
                    "path": table.table_path,
                }
                for table in topic_plan.tables
            ],
            event="plan",
        )
    if topic_plan.refused:
        output.rows(
            "Would be dead letters",
            [{"records": n, "reason": r} for r, n in list(topic_plan.refused.items())[:_SHOWN]],
            event="plan",
        )


def _cost(topic_plan: TopicPlan) -> str:
    cost = topic_plan.cost
    if cost is None or not cost.data_files:
        return "nothing"
    return (
        f"about {cost.data_bytes / 1e6:,.1f} MB in {_files(cost.data_files)} of rows and "
        f"{_files(cost.log_files)} of the log"
    )


def _files(count: int) -> str:
    return f"{count:,} file" if count == 1 else f"{count:,} files"


def _data_row(topic_plan: TopicPlan) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(topic_plan, str_keys=True)
    return {**row, "records": topic_plan.records}
