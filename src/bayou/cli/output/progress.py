"""Progress of a pipeline, as lines or as progress bars."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress import Progress, TaskID

from bayou.cli.output.control_characters import escape_control_characters

if TYPE_CHECKING:
    from bayou.ingest.events import (
        AttemptFailed,
        BatchReport,
        MaintenanceReport,
        MigrationReport,
        RecordsLost,
        TopicStarted,
        TopicSummary,
    )


@dataclass(slots=True)
class _Topic:
    waiting: int
    started: float
    records: int = 0
    dead_letters: int = 0
    filtered: int = 0
    commits: int = 0

    def add(self, event: BatchReport) -> None:
        self.records += event.records
        self.dead_letters += event.dead_letters
        self.filtered += event.filtered
        self.commits += event.version is not None

    def status(self) -> str:
        rate = self.records / max(time.monotonic() - self.started, 1e-6)
        status = (
            f"{self.records:,} of {max(self.waiting, self.records):,} records, "
            f"{rate:,.0f} records/s, {_counted(self.commits, 'commit')}"
        )
        if self.dead_letters:
            status += f", {_counted(self.dead_letters, 'dead letter')}"
        if self.filtered:
            status += f", {self.filtered:,} filtered out"
        return status


class LineReporter:
    """Writes a line for each event, such as a commit; implements `Reporter`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._topics: dict[str, _Topic] = {}

    def topic_started(self, event: TopicStarted) -> None:
        self._topics[event.topic] = _Topic(waiting=event.waiting, started=time.monotonic())
        self._write(f"{event.topic}: {_start(event)}")

    def batch_committed(self, event: BatchReport) -> None:
        topic = self._topics[event.topic]
        topic.add(event)
        version = "" if event.version is None else f"version {event.version}: "
        self._write(f"{event.topic}: {version}{topic.status()}")

    def attempt_failed(self, event: AttemptFailed) -> None:
        self._write(f"{event.topic}: {_retry(event)}")

    def records_lost(self, event: RecordsLost) -> None:
        self._write(f"{event.topic}: {_lost(event)}")

    def migrated(self, event: MigrationReport) -> None:
        self._write(f"{event.topic}: {_migrated(event)}")

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        self._write(f"{event.topic}: {_maintenance(event)}")

    def topic_finished(self, event: TopicSummary) -> None:
        if event.error is None:
            self._write(f"{event.topic}: {_end(event)}")


class RunProgress:
    """Shows a progress bar for each topic; implements `Reporter`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._topics: dict[str, _Topic] = {}
        self._bars: dict[str, TaskID] = {}

    def topic_started(self, event: TopicStarted) -> None:
        self._topics[event.topic] = _Topic(waiting=event.waiting, started=time.monotonic())
        self._bars[event.topic] = self._progress.add_task(
            "", total=event.waiting or None, topic=event.topic, status=_start(event)
        )

    def batch_committed(self, event: BatchReport) -> None:
        topic = self._topics[event.topic]
        topic.add(event)
        self._progress.update(
            self._bars[event.topic],
            completed=topic.records,
            total=max(topic.waiting, topic.records),
            status=topic.status(),
        )

    def attempt_failed(self, event: AttemptFailed) -> None:
        self._print(event.topic, _retry(event))

    def records_lost(self, event: RecordsLost) -> None:
        self._print(event.topic, _lost(event))

    def migrated(self, event: MigrationReport) -> None:
        self._print(event.topic, _migrated(event))

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        self._print(event.topic, _maintenance(event))

    def topic_finished(self, event: TopicSummary) -> None:
        if event.topic in self._bars and event.error is None:
            bar = self._bars[event.topic]
            self._progress.update(bar, total=1, completed=1, status=_end(event))

    def _print(self, topic: str, message: str) -> None:
        self._progress.console.print(escape_control_characters(f"{topic}: {message}"), markup=False)


def _start(event: TopicStarted) -> str:
    source = f"Kafka topic {event.kafka_topic}" if event.kafka_topic != event.topic else "reading"
    return (
        f"{source}, {_counted(event.partitions, 'partition')}, "
        f"{_counted(event.waiting, 'record')} waiting"
    )


def _migrated(event: MigrationReport) -> str:
    if not event.files:
        known = f", {_counted(event.known, 'file')} already migrated" if event.known else ""
        return f"nothing to migrate in {event.source}{known}{_others(event)}"
    message = (
        f"{_counted(event.rows, 'row')} of {_counted(event.files, 'file')} migrated from "
        f"{event.source}, {event.seconds:.1f} s"
    )
    if event.dead_letters:
        message += f", {_counted(event.dead_letters, 'dead letter')}"
    if event.filtered:
        message += f", {_counted(event.filtered, 'record')} filtered out"
    if event.from_kafka:
        message += f", {_counted(event.from_kafka, 'record')} left to Kafka"
    if event.waiting:
        message += f", {_counted(event.waiting, 'unfinished line')} left for the next migration"
    return message + _others(event)


def _others(event: MigrationReport) -> str:
    if not event.other_files:
        return ""
    files = _counted(event.other_files, "file")
    return f", {files} with other endings not read, such as {event.other_file}"


def _lost(event: RecordsLost) -> str:
    offsets = ", ".join(
        f"{span.start} to {span.end - 1} of partition {partition}"
        for partition, span in sorted(event.spans.items())
    )
    return f"records lost: Kafka's retention deleted them before they were read: offsets {offsets}"


def _retry(event: AttemptFailed) -> str:
    limit = "" if event.of is None else f" of {event.of}"
    return (
        f"a {event.what} failed, retry {event.retry}{limit} in {event.pause:g} s: "
        f"{event.error.message}"
    )


def _maintenance(event: MaintenanceReport) -> str:
    if event.error is not None:
        return f"{event.task} failed and will be retried: {event.error.message}"
    if event.result == "nothing":
        return f"{event.task}: nothing to do"
    if event.task == "forget":
        return f"forget: {_counted(event.keys, 'deleted key')} removed after the retention"
    if event.task == "vacuum":
        return f"vacuum: {_counted(event.files_removed, 'file')} deleted, {event.seconds:.1f} s"
    return (
        f"{event.task}: {_counted(event.files_removed, 'file')} compacted into "
        f"{event.files_added:,}, {event.seconds:.1f} s"
    )


def _end(event: TopicSummary) -> str:
    if event.commits == 0:
        return "nothing new"
    rate = (event.rows + event.dead_letters) / max(event.seconds, 1e-6)
    message = (
        f"{_counted(event.rows, 'row')} in {_counted(event.commits, 'commit')}, "
        f"{event.seconds:.1f} s, {rate:,.0f} rows/s"
    )
    if event.dead_letters:
        message += f", {_counted(event.dead_letters, 'dead letter')}"
    if event.filtered:
        message += f", {_counted(event.filtered, 'record')} filtered out"
    return message


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
