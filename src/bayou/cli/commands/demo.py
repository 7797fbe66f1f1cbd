"""`bayou demo`: ingest real data from a topic into a table, without any setup."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli.arguments import AsJson
from bayou.cli.commands.history import history_rows
from bayou.cli.exit_codes import exit_on_error
from bayou.cli.output import output_for
from bayou.cli.output.interface import Output

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
    as_json: AsJson = False,
) -> None:
    """Ingest 336,776 flights from a topic into a table, and query the table.

    Example:
        bayou demo --folder /tmp/demo
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        from bayou.ingest.demo import QUESTION, run_demo

        result = run_demo(folder, progress=output.run, step=output.step)
        _show(output, result, QUESTION)


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
    commits = history_rows(result.history[:_SHOWN_COMMITS])
    output.rows("The table's history", commits, event="commit")
    output.text("Try next", "\n".join(_commands(result)))


def _commands(result: DemoResult) -> list[str]:
    """Return two shell commands to try next. They work without an active virtual environment."""
    on_path = shutil.which("bayou")
    bin_folder = Path(sys.executable).parent
    cwd = Path.cwd()
    folder = bin_folder.relative_to(cwd) if bin_folder.is_relative_to(cwd) else bin_folder
    prefix = "" if on_path and Path(on_path).parent == bin_folder else f"{folder}/"
    question = (
        f'import bayou; print(bayou.table("{result.table_path}")'
        '.to_arrow(filter="month = 12").num_rows)'
    )
    return [
        shlex.join([f"{prefix}bayou", "history", str(result.table_path)]),
        shlex.join([f"{prefix}python", "-c", question]),
    ]
