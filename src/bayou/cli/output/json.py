"""JSON output: one object per line on stdout, including errors.

The key `event` contains the type of the object, such as `batch_committed`. Keys are in snake_case.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from bayou.cli.output.interface import ReaderClosedError, Row
from bayou.errors import BayouError
from bayou.ingest.events import (
    AttemptFailed,
    BatchReport,
    MaintenanceReport,
    MigrationReport,
    RecordsLost,
    Reporter,
    TopicStarted,
    TopicSummary,
)
from bayou.redaction import without_secrets

if TYPE_CHECKING:
    from bayou.ingest.monitoring import Monitor


class JsonOutput:
    """Prints JSON lines for programs; implements `Output`."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 in every locale

    def step(self, text: str) -> None:
        _write({"event": "step", "text": without_secrets(text)})

    def notice(self, text: str) -> None:
        _write({"event": "notice", "text": without_secrets(text)})

    def error(self, message: str, *, kind: str) -> None:
        _write({"event": "error", "type": kind, "message": without_secrets(message)})

    def facts(self, title: str, facts: Mapping[str, Any], *, event: str) -> None:
        _write({"event": event, **_keyed(facts)})

    def rows(self, title: str, rows: Sequence[Row], *, event: str, empty: str = "") -> None:
        for row in rows:
            _write({"event": event, **_keyed(row)})

    def text(self, title: str, text: str) -> None:
        _write({"event": "text", "title": title, "text": text})

    @contextlib.contextmanager
    def run(self) -> Iterator[Reporter]:
        yield _JsonReporter()

    @property
    def is_live(self) -> bool:
        return False

    @contextlib.contextmanager
    def watch(self, monitor: Monitor) -> Iterator[Reporter]:
        yield _JsonReporter()


class _JsonReporter:
    """Prints each event of a run as a JSON line; implements `Reporter`."""

    def topic_started(self, event: TopicStarted) -> None:
        _write({"event": "topic_started", **_fields(event)})

    def batch_committed(self, event: BatchReport) -> None:
        _write({"event": "batch_committed", **_fields(event)})

    def attempt_failed(self, event: AttemptFailed) -> None:
        _write({"event": "attempt_failed", **_fields(event)})

    def records_lost(self, event: RecordsLost) -> None:
        _write({"event": "records_lost", **_fields(event)})

    def migrated(self, event: MigrationReport) -> None:
        _write({"event": "migrated", **_fields(event)})

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        _write({"event": "maintenance_finished", **_fields(event)})

    def topic_finished(self, event: TopicSummary) -> None:
        _write({"event": "topic_finished", **_fields(event)})


def _keyed(row: Row) -> Row:
    """Return a row with `_` instead of spaces in its keys."""
    return {name.replace(" ", "_"): value for name, value in row.items()}


def _fields(event: object) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(event, enc_hook=_encode, str_keys=True)
    return built


def _encode(value: object) -> Any:
    if isinstance(value, BayouError):
        return {"type": type(value).__name__, "message": value.message}
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return without_secrets(str(value))


def _write(row: Mapping[str, Any]) -> None:
    line = msgspec.json.encode(row, enc_hook=_encode).decode() + "\n"
    if sys.stdout is None:  # closed by the parent process
        return
    try:
        with _LOCK:  # events arrive from several threads
            sys.stdout.write(line)
            sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderClosedError from error


_LOCK = threading.Lock()
