"""A reporter that writes each event as a line of `key=value` pairs, for logs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from bayou.redaction import without_secrets

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


class LogReporter:
    """Writes log lines; implements `Reporter`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def topic_started(self, event: TopicStarted) -> None:
        self._log(
            "topic_started",
            topic=event.topic,
            kafka_topic=event.kafka_topic,
            table=event.table_path,
            partitions=event.partitions,
            waiting=event.waiting,
            unseen_masks=",".join(event.unseen_masks),
            unseen_fields=",".join(event.unseen_fields),
            table_differences="; ".join(event.table_differences),
            table_changed=event.table_changed,
        )

    def batch_committed(self, event: BatchReport) -> None:
        self._log(
            "batch_committed",
            topic=event.topic,
            version=event.version,
            rows=event.rows,
            dead_letters=event.dead_letters,
            left_out=event.left_out,
            filtered=event.filtered or None,
            deleted=event.deleted or None,
            superseded=event.superseded or None,
            seconds=round(event.seconds, 3),
            offsets=",".join(f"{p}:{s.start}-{s.end}" for p, s in sorted(event.spans.items())),
            new_columns=",".join(event.new_columns),
            routed=",".join(f"{table.table}:{table.rows}" for table in event.tables),
            fields_left_out=",".join(event.ignored),
            retries=event.retries,
        )

    def attempt_failed(self, event: AttemptFailed) -> None:
        self._log(
            "attempt_failed",
            level="warning",
            topic=event.topic,
            what=event.what,
            retry=event.retry,
            of=event.of,
            pause=event.pause,
            conflict=str(event.conflict).lower(),
            error=event.error.message,
        )

    def records_lost(self, event: RecordsLost) -> None:
        self._log(
            "records_lost",
            level="error",
            topic=event.topic,
            offsets=",".join(f"{p}:{s.start}-{s.end}" for p, s in sorted(event.spans.items())),
        )

    def migrated(self, event: MigrationReport) -> None:
        self._log(
            "migrated",
            topic=event.topic,
            source=event.source,
            files=event.files,
            known=event.known,
            records=event.records,
            rows=event.rows,
            dead_letters=event.dead_letters,
            from_kafka=event.from_kafka or None,
            waiting=event.waiting or None,
            other_files=event.other_files or None,
            other_file=event.other_file,
            version=event.version,
            seconds=round(event.seconds, 3),
        )

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        error = event.error
        self._log(
            "maintenance_finished",
            level="info" if error is None else "error",
            topic=event.topic,
            task=event.task,
            result=event.result,
            version=event.version,
            files_added=event.files_added,
            files_removed=event.files_removed,
            keys=event.keys,
            seconds=round(event.seconds, 3),
            error=None if error is None else error.message,
        )

    def topic_finished(self, event: TopicSummary) -> None:
        self._log(
            "topic_finished",
            level="info" if event.error is None else "error",
            topic=event.topic,
            rows=event.rows,
            dead_letters=event.dead_letters,
            commits=event.commits,
            version=event.version,
            error=None if event.error is None else event.error.message,
            restart=event.restart,
        )

    def _log(self, name: str, *, level: str = "info", **facts: Any) -> None:
        now = dt.datetime.now(dt.UTC)
        self._write(log_line(now, level, name, facts))


def log_line(now: dt.datetime, level: str, event: str, facts: dict[str, Any]) -> str:
    """Format a line such as `time=... level=info event=batch_committed rows=3`.

    Empty values are omitted.
    """
    fields = {"time": f"{now:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z", "level": level, "event": event}
    fields |= {name: value for name, value in facts.items() if value not in (None, "")}
    return " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())


def _quoted(value: Any) -> str:
    string = without_secrets(str(value))
    plain = string and not any(c.isspace() or c in '"=' or not c.isprintable() for c in string)
    return string if plain else msgspec.json.encode(string).decode()
