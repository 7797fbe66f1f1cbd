"""`bayou plan`: what a run would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bayou.cli.arguments import (
    AsJson,
    Config,
    OnlyTopics,
    Settings,
    named_topics,
    of_topic,
    told_unseen,
)
from bayou.cli.exit_codes import FAILED, explained
from bayou.cli.output import Output, output_for

if TYPE_CHECKING:
    from bayou.ingest.inspection import TopicPlan

__all__ = ["plan"]

_SHOWN = 5


def plan(
    config: Config,
    topic: OnlyTopics = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run would do; nothing is written.

    Offsets, sizes, commits, files, new columns, and why a topic would refuse. Sizes, files, new
    columns and dead letters come from a look at the first 1,000 records a partition.
    """
    output = output_for(as_json=as_json)
    with explained(output):
        from bayou.ingest.config import load_configuration
        from bayou.ingest.inspection import plan_run

        configuration = load_configuration(config, settings=settings or ())
        for notice in configuration.notices:
            output.notice(notice.text)
        configuration.check_runnable()
        plans = plan_run(configuration, named_topics(configuration, topic))
        for found in plans:
            if found.unseen_masks:
                output.notice(of_topic(found.topic, told_unseen(found.unseen_masks)))
            if as_json:
                output.facts("", _for_machines(found), event="plan")
            else:
                _show(output, found)
        if any(found.error is not None for found in plans):
            raise typer.Exit(FAILED)


def _show(output: Output, found: TopicPlan) -> None:
    if found.error is not None:
        output.error(of_topic(found.topic, found.error), kind="TopicError")
        return
    refused = sum(found.refused.values())
    facts: dict[str, Any] = {
        "from": f"Kafka topic {found.kafka_topic}, {len(found.spans)} partitions",
        "to": f"{found.table_path}{', which will be made' if found.creates else ''}",
        "reads": f"{found.records:,} offsets, about {found.bytes / 1e6:,.1f} MB of values",
        "commits": f"about {found.commits:,}",
        "writes": _cost(found),
        "new columns": ", ".join(f"{n} {k}" for n, k in found.new_columns.items()) or "none",
        "dead letters": f"{refused:,} of {found.sampled:,} records looked at",
    }
    if found.lost:
        lost = sum(span.end - span.start for span in found.lost.values())
        facts["lost"] = f"{lost:,} offsets that Kafka's retention took before they were read"
    output.facts(found.topic, facts, event="plan")
    output.rows(
        "Offsets",
        [
            {"partition": p, "from": str(s.start), "to": str(s.end), "offsets": s.end - s.start}
            for p, s in found.spans.items()
        ],
        event="plan",
    )
    if found.refused:
        output.rows(
            "Would be dead letters",
            [{"records": n, "reason": r} for r, n in list(found.refused.items())[:_SHOWN]],
            event="plan",
        )


def _cost(found: TopicPlan) -> str:
    cost = found.cost
    if cost is None or not cost.data_files:
        return "nothing"
    return (
        f"about {cost.data_bytes / 1e6:,.1f} MB in {_files(cost.data_files)} of rows, "
        f"{_files(cost.log_files)} of the log"
    )


def _files(number: int) -> str:
    return f"{number:,} file" if number == 1 else f"{number:,} files"


def _for_machines(found: TopicPlan) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(found, str_keys=True)
    return {**row, "records": found.records}
