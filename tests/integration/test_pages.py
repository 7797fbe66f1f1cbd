"""The code blocks of the README and of each page in docs run, or the page says why not."""

from __future__ import annotations

import builtins
import datetime as dt
import re
import signal
import symtable
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli.main import command_line
from bayou.ingest.runtime import pipeline
from bayou.spark.kafka import EmbeddedBroker
from support.page_blocks import ROOT, RUN, SHOWN, blocks_of, documented_pages
from support.page_preparations import PREPARATIONS, Prepared, create_dated_table
from support.page_runner import PageRunner
from support.unity_double import UnityDouble

_NEEDS = re.compile(r"^The (?:examples|commands)\b[^.]*\b(?:continue|need|read|use)", re.MULTILINE)

_CONTINUES = re.compile(
    r"continues? (?:each other|the ones above|the previous one|with)"
    r"|The program continues|Save the programs to"
)

PAGES = [page for page in documented_pages() if any(block.runs for block in blocks_of(page))]

PRINTED = {
    "README.md": ["user_events_v1"],
    "docs/guide/spark.md": ["DELTA_MISSING_DELTA_TABLE 42P01"],
}
"""What the blocks of a page print, apart from the output that the page shows."""


def test_a_block_with_a_language_runs_or_the_page_says_why_not() -> None:
    for page in documented_pages():
        for block in blocks_of(page):
            known = block.language in RUN | SHOWN
            assert known or block.reason is not None, f"{block}: {block.language}: no reason"


def test_output_is_shown_of_blocks_that_run() -> None:
    for page in documented_pages():
        for block in blocks_of(page):
            assert block.output is None or block.runs, f"{block}: doesn't run"


def test_a_preparation_belongs_to_a_page_whose_blocks_run() -> None:
    assert {*PREPARATIONS, *PRINTED} <= set(PAGES)


def test_a_page_says_what_its_examples_need() -> None:
    for page in PREPARATIONS:
        if not page.startswith("docs/reference/"):  # docstrings
            before = (ROOT / page).read_text()
            assert _NEEDS.search(before), f"{page}: add a sentence: The examples use ..."


def test_a_program_defines_its_names_or_the_page_says_that_programs_continue() -> None:
    for page in documented_pages():
        text = (ROOT / page).read_text()
        for block in blocks_of(page):
            if block.language == "python" and _undefined_names(block.text):
                before = "\n".join(text.splitlines()[: block.line])
                assert _CONTINUES.search(before), f"{block}: {_undefined_names(block.text)}"


def _undefined_names(program: str) -> set[str]:
    """Return the global names that a program uses and doesn't define."""
    if "import *" in program:
        return set()
    module = symtable.symtable(program, "program", "exec")
    defined = {s.get_name() for s in module.get_symbols() if s.is_assigned() or s.is_namespace()}
    defined |= {s.get_name() for s in module.get_symbols() if s.is_imported()}
    used: set[str] = set()
    tables = [module]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        symbols = [s for s in table.get_symbols() if s.is_referenced()]
        used |= {s.get_name() for s in symbols if table is module or s.is_global()}
    return used - defined - set(dir(builtins))


@pytest.fixture(scope="module")
def dated_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with versions of January 2024."""
    path = tmp_path_factory.mktemp("dated") / "events"
    create_dated_table(path)
    return path


@pytest.fixture
def prepared(
    session_for_examples: Any, dated_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], PageRunner]]:
    """Return a function that prepares a page and returns its runner."""
    spark = session_for_examples
    monkeypatch.chdir(tmp_path)
    # `bayou run` uses the shared session, because another one takes seconds to start.
    monkeypatch.setattr(pipeline, "_session", lambda configuration: spark)
    monkeypatch.setattr(pipeline, "stop_session", lambda session: None)
    at_sigterm = signal.getsignal(signal.SIGTERM)
    settings = dict(spark.conf.getAll)
    commands = CliRunner()
    with EmbeddedBroker() as broker, UnityDouble(str(tmp_path / "managed")) as unity:
        runner = PageRunner(
            folder=tmp_path,
            broker=broker.bootstrap_servers,
            invoke=lambda *arguments: commands.invoke(command_line(), list(arguments)),
            execute=_execute,
            setenv=monkeypatch.setenv,
            spark=lambda: spark,
        )

        def prepare(page: str) -> PageRunner:
            if page in PREPARATIONS:
                PREPARATIONS[page](Prepared(runner, broker, dated_table, unity))
            return runner

        yield prepare
        for query in spark.streams.active:
            query.stop()
    for name in dict(spark.conf.getAll).keys() - settings.keys():
        spark.conf.unset(name)
    signal.signal(signal.SIGTERM, at_sigterm)


def _execute(*arguments: str) -> int:
    try:
        command_line()(list(arguments))
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(
    page: str, prepared: Callable[[str], PageRunner], capsys: pytest.CaptureFixture[str]
) -> None:
    runner = prepared(page)
    for block in blocks_of(page):
        if block.runs:
            runner.run(block)
    printed = capsys.readouterr().out + "".join(runner.output)
    for text in PRINTED.get(page, ()):
        assert text in printed
    if page in CHECKS:
        CHECKS[page](runner)


def _check_clone(runner: PageRunner) -> None:
    copied = bayou.table(str(runner.lake / "items_copy"))
    assert [c["operation"] for c in copied.history()] == ["DELETE", "CLONE"]


def _check_connector(runner: PageRunner) -> None:
    scope = runner.scope
    distributed = [
        row
        for task in scope["tasks"]
        for batch in scope["run"](*scope["shared"], task)
        for row in batch.to_pylist()
    ]
    # The remaining filter is the connector's to apply.
    expected = [{"id": 1, "name": "a"}, {"id": 20, "name": "b"}, {"id": 30, "name": "c"}]
    assert scope["rows"].to_pylist() == distributed == expected
    assert scope["audited_engine"]({}).files.resolve_path("/a/") == "/a"
    assert scope["result"].version == 1
    written = bayou.table(str(runner.lake / "events")).to_arrow(filter="name IS NULL")
    assert written.to_pylist() == [{"id": 1, "day": "2024-01-05", "name": None}]


def _check_restored(runner: PageRunner) -> None:
    rows = bayou.table(str(runner.lake / "events")).to_arrow().to_pylist()
    assert rows == [{"id": 1, "day": dt.date(2024, 1, 5)}]
    assert not bayou.table(str(runner.lake / "copy")).count()


CHECKS = {
    "docs/connectors.md": _check_connector,
    "docs/guide/delta-table.md": _check_clone,
    "docs/guide/sql.md": _check_restored,
}
"""What a page's blocks have done."""
