"""The live view and the log lines: what they say, at any width."""

from __future__ import annotations

import datetime as dt
import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.progress import Progress

from bayou.cli.output.live_table import LiveView
from bayou.cli.output.log_lines import LogReporter, log_line
from bayou.cli.output.progress import RunProgress
from bayou.errors import PipelineError
from bayou.ingest.events import AttemptFailed, BatchReport, TopicSummary
from bayou.ingest.monitoring import PipelineStatus, TopicStatus
from bayou.ingest.offsets import OffsetSpan

TOPIC = TopicStatus(
    topic="events",
    kafka_topic="events.v1",
    table_path="lake/events",
    state="failed",
    error="it broke",
    rows=1_234_567,
    lag={0: 5, 1: 7},
    freshness=90.0,
    objective=30.0,
)
STATUS = PipelineStatus(
    version="1", configuration="p.yaml", began=0.0, at=500.0, topics=(TOPIC,), commits=()
)


@pytest.mark.parametrize("width", [60, 120])
def test_the_view_shows_every_topic_and_its_error(width):
    out = io.StringIO()
    Console(file=out, width=width).print(LiveView(lambda: STATUS, "http://127.0.0.1:8710/"))
    shown = out.getvalue()
    assert "error: it broke" in shown
    assert "http://127.0.0.1:8710/" in shown
    if width == 120:
        assert "1,234,567" in shown
        assert "90 s of 30 s" in shown
        assert " 12 " in shown


def test_failed_and_late_topics_are_first():
    fine = replace(TOPIC, topic="a-fine", state="running", error=None, freshness=1.0)
    late = replace(fine, topic="b-late", freshness=99.0)
    out = io.StringIO()
    status = replace(STATUS, topics=(fine, late, TOPIC))
    Console(file=out, width=200).print(LiveView(lambda: status, None))
    shown = out.getvalue()
    assert shown.index("events") < shown.index("b-late") < shown.index("a-fine")


def test_what_a_terminal_obeys_is_shown_and_not_sent():
    command = "\x1b]52;c;cm0gLXJmIH4=\x07\x9b31m"
    error = PipelineError(f"rows break a CHECK: {command}", topic="a")
    out = io.StringIO()
    console = Console(file=out, width=200)
    topic = replace(TOPIC, error=error.message)
    console.print(LiveView(lambda: replace(STATUS, topics=(topic,)), None))
    failed = AttemptFailed(topic="a", what="batch", retry=1, of=3, pause=0.5, error=error)
    RunProgress(Progress(console=console)).attempt_failed(failed)
    assert not set(out.getvalue()) & {"\x1b", "\x07", "\x9b"}
    assert out.getvalue().count(r"\x1b]52;c;cm0gLXJmIH4=\x07\x9b31m") == 2


def test_a_line_quotes_what_has_blanks_and_leaves_out_what_says_nothing():
    now = dt.datetime(2024, 1, 5, 10, 0, 0, 1000, dt.UTC)
    line = log_line(now, "error", "e", {"a": 1, "b": None, "c": 'x "y"\nz', "d": ""})
    assert line == 'time=2024-01-05T10:00:00.001Z level=error event=e a=1 c="x \\"y\\"\\nz"'


def test_every_event_is_a_line():
    lines: list[str] = []
    reporter = LogReporter(lines.append)
    spans = {0: OffsetSpan(start=3, end=8)}
    reporter.batch_committed(BatchReport(topic="a", spans=spans, rows=5, version=2))
    error = PipelineError("it broke", topic="a")
    reporter.topic_finished(TopicSummary(topic="a", table_path="t", error=error))
    assert "event=batch_committed topic=a version=2 rows=5" in lines[0]
    assert "offsets=0:3-8" in lines[0]
    assert "level=error" in lines[1]
    assert 'error="it broke"' in lines[1]
