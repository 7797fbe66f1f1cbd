"""What each form of the output says of an event of a run."""

from __future__ import annotations

import json

from bayou.cli.output.console import ConsoleOutput
from bayou.cli.output.json import JsonOutput
from bayou.cli.output.log_lines import LogReporter
from bayou.ingest.events import RecordsLost
from bayou.ingest.offsets import OffsetSpan

LOST = RecordsLost(
    topic="events", spans={1: OffsetSpan(start=3, end=5), 0: OffsetSpan(start=0, end=9)}
)


def test_offsets_that_were_lost_are_named_in_words(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with ConsoleOutput().run() as reporter:
        reporter.records_lost(LOST)
    assert capsys.readouterr().out.strip() == (
        "events: records lost: Kafka's retention deleted them before they were read: "
        "offsets 0 to 8 of partition 0, 3 to 4 of partition 1"
    )


def test_offsets_that_were_lost_are_named_in_a_line_of_the_log():
    lines = []
    LogReporter(lines.append).records_lost(LOST)
    assert lines[0].endswith("level=error event=records_lost topic=events offsets=0:0-9,1:3-5")


def test_offsets_that_were_lost_are_named_for_machines(capsys):
    with JsonOutput().run() as reporter:
        reporter.records_lost(LOST)
    assert json.loads(capsys.readouterr().out) == {
        "event": "records_lost",
        "topic": "events",
        "spans": {"1": {"start": 3, "end": 5}, "0": {"start": 0, "end": 9}},
    }
