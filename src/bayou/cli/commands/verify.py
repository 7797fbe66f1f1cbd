"""`bayou verify`: check that tables are Delta tables, and prove exactly-once ingestion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli import completions
from bayou.cli.commands.tables.history import history_rows
from bayou.cli.exit_on_error import FAILED, WRONG_USAGE, exit_on_error
from bayou.cli.output import Output, output_for
from bayou.cli.output.cells import format_cell
from bayou.cli.shared_arguments import AsJson, FromConfig, Settings, load_topics, select_topics
from bayou.cli.tables import open_table
from bayou.errors import TableNotFoundError

if TYPE_CHECKING:
    from bayou.ingest.inspection import OffsetProof, TableReport
    from bayou.ingest.offsets import OffsetSpan

_SHOWN = 5


def verify(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Folders, or URIs such as s3://... With --config: topics; all topics by default.",
            show_default=False,
            autocompletion=completions.tables,
        ),
    ] = None,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Check Delta tables; with --config prove exactly-once ingestion.

    The proof compares a table with its topic, and fails if a record is missing or duplicated. The
    exit code is 1 if a path isn't a Delta table, or if a proof fails.

    Example:
        bayou verify lake/events
        bayou verify --config pipeline.yaml user-events
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        if not tables and config is None:
            output.error(
                "verify: no table. Pass a table, or a configuration with --config",
                kind="UsageError",
            )
            raise typer.Exit(WRONG_USAGE)
        if config is None:
            results = [
                _verify_path(output, path, settings, as_json=as_json) for path in tables or ()
            ]
        else:
            results = _verify_topics(output, config, settings, tables, as_json=as_json)
        if not all(results):
            raise typer.Exit(FAILED)


def _verify_path(
    output: Output, path: str, settings: Sequence[str] | None, *, as_json: bool
) -> bool:
    from bayou.cli.output.pandas_import import skip_pandas
    from bayou.ingest.inspection import table_report

    skip_pandas()
    report = table_report(path, open_table(path, settings=settings))
    _show_report(output, report, as_json=as_json)
    return report.error is None and _has_equal_iceberg(output, report)


def _verify_topics(
    output: Output,
    config: Path,
    settings: Sequence[str] | None,
    names: Sequence[str] | None,
    *,
    as_json: bool,
) -> list[bool]:
    from bayou.errors import KafkaError, PipelineError
    from bayou.ingest.inspection import TopicTables, prove_offsets, table_report
    from bayou.ingest.topic_errors import topic_error

    configuration = load_topics(config, settings)
    results: list[bool] = []
    brokers_answer = True
    reports: dict[str, TableReport] = {}
    for topic in select_topics(configuration, names):
        try:
            topic.check_table()
        except PipelineError as refused:
            output.error(refused.message, kind=type(refused).__name__)
            results.append(False)
            continue
        report = reports.get(topic.table_path)
        if report is None:  # topics may share a table
            tables = TopicTables.of(configuration, topic)
            report = table_report(topic.table_path, tables.target)
            _show_report(output, report, as_json=as_json)
            reports[topic.table_path] = report
        if report.error is not None or not _has_equal_iceberg(output, report):
            results.append(False)
            continue
        configuration.check_runnable()
        if not brokers_answer:  # another request would time out too
            results.append(False)
            continue
        try:
            proof = prove_offsets(configuration, topic)
        except Exception as fault:  # noqa: BLE001  # continue with the other topics
            error = topic_error(fault, topic.key)
            output.error(error.message, kind=type(error).__name__)
            brokers_answer = not (isinstance(error, KafkaError) and error.topic is None)
            results.append(False)
            continue
        _show_proof(output, proof, as_json=as_json)
        results.append(proof.holds)
    return results


def _has_equal_iceberg(output: Output, report: TableReport) -> bool:
    """Print how a table and its Iceberg metadata differ; return False if the metadata is wrong.

    If the metadata is correct but of an earlier version, only a notice is printed, and the result
    is True.
    """
    status = report.iceberg
    if status is None:
        return True
    for problem in status.problems:
        output.error(
            f"{report.path}: the Iceberg metadata is wrong: {problem}. Run bayou uniform sync "
            f"{report.path} --full",
            kind="IcebergDiffers",
        )
    if status.lag and not status.problems:
        behind = "1 version" if status.lag == 1 else f"{status.lag:,} versions"
        output.notice(
            f"{report.path}: the Iceberg metadata is {behind} behind. Run bayou "
            f"uniform sync {report.path}"
        )
    return not status.problems


def _show_report(output: Output, report: TableReport, *, as_json: bool) -> None:
    if isinstance(report.error, TableNotFoundError):
        output.error(f"{report.path}: not a Delta table: {report.error.message}", kind="NotATable")
        return
    if report.error is not None:
        output.error(f"{report.path}: {report.error.message}", kind=type(report.error).__name__)
        return
    if report.unconditional_commits:
        from bayou.ingest.inspection import unconditional_commits_warning

        output.notice(unconditional_commits_warning(report.path, report.unconditional_commits))
    facts: dict[str, Any] = {
        "version": report.version,
        "rows": report.rows,
        "files": report.files,
        "bytes": report.bytes,
        "partitioned by": list(report.partition_columns)
        if as_json
        else ", ".join(report.partition_columns) or "no column",
    }
    if report.iceberg is not None:
        facts["iceberg version"] = report.iceberg.converted_version
    if as_json:
        facts |= {
            "table": report.path,
            "is_delta": True,
            "schema": report.schema,
            "sample": report.sample,
            "history": report.history,
        }
        output.facts("", facts, event="table")
        return
    output.facts(f"{report.path} is a Delta table", facts, event="table")
    columns = [{"column": name, "type": kind} for name, kind in report.schema.items()]
    output.rows("Columns", columns, event="column")
    sample = [{name: format_cell(value) for name, value in row.items()} for row in report.sample]
    output.rows("Sample", sample, event="row", empty="the table has no rows")
    output.rows("History", history_rows(report.history), event="commit")


def _show_proof(output: Output, proof: OffsetProof, *, as_json: bool) -> None:
    has_filtered = any(part.filtered for part in proof.partitions)
    output.rows(
        "Exactly once" if proof.holds else "NOT exactly once",
        [
            {
                "topic": proof.topic,
                "partition": part.partition,
                "covered to": part.covered,
                "rows": part.rows,
                "dead letters": part.dead_letters,
                **({"filtered": part.filtered} if as_json or has_filtered else {}),
                "gaps": _spans(part.gaps),
                "doubles": _spans(part.duplicates),
                "ahead": _spans(part.ahead),
                "stale": _spans(part.stale),
                "not provable": _spans(part.unproven),
                "waiting": part.waiting,
                **({"holds": part.holds} if as_json else {}),
            }
            for part in proof.partitions
        ],
        event="proof",
    )
    if proof.duplicate_keys:
        output.error(
            f"{proof.table_path}: {proof.duplicate_keys:,} rows have a duplicate key",
            kind="DoubleKeys",
        )
    for part in proof.partitions:
        if not part.holds:
            output.error(
                f"topic {proof.topic!r}: partition {part.partition} of {proof.table_path}: "
                f"{_problem(part.gaps, 'missing')}{_problem(part.duplicates, 'duplicated')}"
                f"{_problem(part.ahead, 'present before their offsets are committed')}"
                f"{_problem(part.stale, 'present despite a newer record with the same key')}"
                "see 'Gap or double' in the runbook",
                kind="NotExactlyOnce",
            )


def _problem(spans: Sequence[OffsetSpan], problem: str) -> str:
    count = sum(span.end - span.start for span in spans)
    return f"{count:,} records {problem} (offsets {_spans(spans)}); " if spans else ""


def _spans(spans: Sequence[OffsetSpan]) -> str:
    ranges = [
        str(s.start) if s.end - s.start == 1 else f"{s.start}-{s.end - 1}" for s in spans[:_SHOWN]
    ]
    more = [f"and {len(spans) - _SHOWN} more"] if len(spans) > _SHOWN else []
    return ", ".join(ranges + more)
