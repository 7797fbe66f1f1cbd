"""`bayou demo`: ingest real data from a topic into a table, without any setup."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import threading
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli.commands.tables.history import history_rows
from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import output_for
from bayou.cli.output.interface import Output
from bayou.cli.shared_arguments import AsJson

if TYPE_CHECKING:
    from bayou.ingest.demo import DemoResult

_SHOWN_COMMITS = 10


def demo(
    folder: Annotated[
        Path,
        typer.Option(
            "--folder", metavar="FOLDER", help="Folder for the table and the configuration."
        ),
    ] = Path("demo"),
    keep_open: Annotated[
        bool,
        typer.Option("--open", help="Open the status page of the run, and keep it until Ctrl-C."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ingest 336,776 flights from a topic into a table, and query the table.

    Example:
        bayou demo --folder /tmp/demo
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output), ExitStack() as stack:
        from bayou.ingest.demo import QUESTION, run_demo

        keep = stack if keep_open else None
        result = run_demo(folder, progress=output.run, step=output.step, keep=keep)
        _show(output, result, QUESTION)
        if result.status_page is not None:
            output.notice(f"status page of this run: {result.status_page} (Ctrl-C ends it)")
            webbrowser.open(result.status_page)
            threading.Event().wait()


def _show(output: Output, result: DemoResult, question: str) -> None:
    summary = result.summary
    output.facts(
        "Result",
        {
            "produced": f"{result.produced:,} records, {result.produce_seconds:.1f} s",
            "ingested": f"{summary.rows:,} rows, {summary.seconds:.1f} s, "
            f"{summary.rows / max(summary.seconds, 1e-6):,.0f} rows/s",
            "exactly once": f"{summary.rows:,} rows have {summary.rows:,} distinct offsets; "
            f"{summary.dead_letters} dead letters",
            "table": f"{result.table_path}: {summary.commits} commits, {result.files} files, "
            f"{result.bytes / 1e6:.1f} MB",
        },
        event="demo",
    )
    output.text("The question", question)
    output.rows(f"The answer, in {result.answer_seconds:.1f} s", result.answer, event="answer")
    # Omit the column `engine`, so that a row fits into 80 characters.
    commits = [
        {name: value for name, value in row.items() if name != "engine"}
        for row in history_rows(result.history[:_SHOWN_COMMITS])
    ]
    output.rows("The table's history", commits, event="commit")
    output.text("Try next", "\n".join(_commands(result)))


def _commands(result: DemoResult) -> list[str]:
    """Return shell commands to try next. They work without an active virtual environment."""
    on_path = shutil.which("bayou")
    bin_folder = Path(sys.executable).parent
    cwd = Path.cwd()
    folder = bin_folder.relative_to(cwd) if bin_folder.is_relative_to(cwd) else bin_folder
    prefix = "" if on_path and Path(on_path).parent == bin_folder else f"{folder}/"
    path = str(result.table_path)
    quoted = json.dumps(path, ensure_ascii=False)
    delayed = f'import bayou; print(bayou.table({quoted}).to_pandas(filters="dep_delay > 900"))'
    # `start_session` lets Spark's workers run this environment's Python, activated or not.
    counted = (
        'from bayou.spark import start_session; start_session("demo", master="local[2]")'
        f'.read.format("delta").load({quoted}).groupBy("origin").count().show()'
    )
    query = "SELECT dest, count(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 5"
    first = "SELECT count(*) AS rows_of_version_1 FROM first"
    python = f"{prefix}python"
    bayou = f"{prefix}bayou"
    return [
        "# The most delayed flights, with pandas",
        shlex.join([python, "-c", delayed]),
        "# SQL without Spark, by DuckDB",
        shlex.join([bayou, "sql", query, "-t", f"flights={path}"]),
        "# Spark SQL",
        shlex.join([python, "-c", counted]),
        "# Time travel: every commit is a version",
        shlex.join([bayou, "history", path]),
        shlex.join([bayou, "sql", first, "-t", f"first={path}@1"]),
        "# The status page of a run",
        shlex.join([bayou, "demo", "--open"]),
    ]
