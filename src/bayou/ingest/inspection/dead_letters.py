"""Lists and counts the dead letters of a topic."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from bayou.api.conditions import combine_with_and
from bayou.ingest.inspection.topic_status import TopicTables
from bayou.kernel.expressions.model import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A dead letter, with its reason and its record. `headers` contains pairs of key and value."""

    partition: int
    offset: int
    timestamp: dt.datetime | None
    reason: str
    headers: tuple[tuple[str, bytes | None], ...] = ()
    key: bytes | None = None
    value: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """The number of dead letters with the same reason, and their oldest and newest timestamp."""

    reason: str
    count: int
    oldest: dt.datetime | None
    newest: dt.datetime | None


def list_letters(
    tables: TopicTables, *, where: str | None = None, limit: int | None = None
) -> list[DeadLetter]:
    """Return a topic's dead letters, in no particular order.

    Args:
        where: an SQL condition on the columns of the dead letter table, such as `partition = 0 AND
            offset = 17`; None for all dead letters.
        limit: maximum number of dead letters; None for no limit.
    """
    if not tables.dead_letters.exists():
        return []
    condition = _of_topic(tables, where)
    rows = tables.dead_letters.to_arrow(filter=condition, limit=limit).to_pylist()
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
    """Count a topic's dead letters for each reason; the most frequent reason is first."""
    if not tables.dead_letters.exists():
        return []
    condition = _of_topic(tables, where)
    rows = tables.dead_letters.to_arrow(columns=["reason", "timestamp"], filter=condition)
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


def _of_topic(tables: TopicTables, where: str | None) -> Predicate | str | None:
    return combine_with_and(tables.letters_filter, where)
