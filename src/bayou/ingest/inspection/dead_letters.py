"""Lists and counts the dead letters of a topic."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from bayou.ingest.inspection.topic_status import TopicTables

__all__ = ["DeadLetter", "LetterGroup", "group_letters", "list_letters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A dead letter.

    Attributes:
        partition, offset: the record's position in Kafka.
        timestamp: the record's Kafka timestamp.
        reason: why the record was refused.
        headers: (key, value) pairs.
        key, value: the raw bytes.
    """

    partition: int
    offset: int
    timestamp: dt.datetime | None
    reason: str
    headers: tuple[tuple[str, bytes | None], ...] = ()
    key: bytes | None = None
    value: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """The number of dead letters with one reason, and their oldest and newest timestamps."""

    reason: str
    count: int
    oldest: dt.datetime | None
    newest: dt.datetime | None


def list_letters(
    tables: TopicTables, *, where: str | None = None, limit: int | None = None
) -> list[DeadLetter]:
    """Return dead letters in the order of the table's files.

    Args:
        tables: the topic's tables.
        where: an SQL condition on the columns of the dead letter table, such as
            `partition = 0 AND offset = 17`.
        limit: maximum number of dead letters.

    Raises:
        PredicateError: `where` isn't a valid condition.
    """
    if not tables.dead_letters.exists():
        return []
    rows = tables.dead_letters.to_arrow(filter=where, limit=limit).to_pylist()
    return [
        DeadLetter(
            partition=row["partition"],
            offset=row["offset"],
            timestamp=row["timestamp"],
            reason=row["reason"],
            headers=tuple((h["key"], h["value"]) for h in row["headers"] or ()),
            key=row["key"],
            value=row["value"],
        )
        for row in rows
    ]


def group_letters(tables: TopicTables, *, where: str | None = None) -> list[LetterGroup]:
    """Return the dead letters counted by reason, the most frequent first."""
    if not tables.dead_letters.exists():
        return []
    rows = tables.dead_letters.to_arrow(columns=["reason", "timestamp"], filter=where)
    grouped = rows.group_by("reason").aggregate(
        [("reason", "count"), ("timestamp", "min"), ("timestamp", "max")]
    )
    groups = [
        LetterGroup(
            reason=row["reason"],
            count=row["reason_count"],
            oldest=row["timestamp_min"],
            newest=row["timestamp_max"],
        )
        for row in grouped.to_pylist()
    ]
    return sorted(groups, key=lambda g: (-g.count, g.reason))
