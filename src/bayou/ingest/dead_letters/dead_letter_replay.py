"""Replays dead letters with the current schema, each at most once.

A replay commits the rows to the target, then deletes their dead letters. After a crash between the
two commits, the next replay finds the offsets of the dead letters in the target and only deletes
the dead letters. If two replays run at the same time, only one can commit, because both increment
the same transaction identifier of the target. Dead letters at offsets that the target hasn't
recorded yet are skipped, because the next run of the pipeline processes these records again.
"""

from __future__ import annotations

from dataclasses import asdict

from bayou.errors import CommitConflictError
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.dead_letters.append_replay import AppendReplay, ReplayResult
from bayou.ingest.dead_letters.routed_replay import RoutedReplay
from bayou.ingest.dead_letters.upsert_replay import upsert_letters
from bayou.ingest.inspection import TopicTables
from bayou.ingest.offsets import covered_offsets
from bayou.ingest.schema.files import topic_schemas

_ATTEMPTS = 5


def replay_dead_letters(
    configuration: Configuration, topic: Topic, *, where: str | None = None, dry_run: bool = False
) -> ReplayResult:
    """Move dead letters that can now become rows to the target.

    The pipeline may run at the same time. `where` selects dead letters: an SQL condition on the
    columns of the dead letter table.
    """
    if topic.upsert_keys is not None:
        result = upsert_letters(configuration, topic, where=where, dry_run=dry_run)
        return ReplayResult(topic=topic.key, **asdict(result))
    schema = topic_schemas(configuration)[topic.section]
    kind = AppendReplay if topic.routes is None else RoutedReplay
    attempt = 1
    while True:
        replay = kind(configuration, topic, schema, where)
        try:
            return replay.run(dry_run=dry_run)
        except CommitConflictError:
            if attempt == _ATTEMPTS:
                raise
        attempt += 1


def delete_dead_letters(
    configuration: Configuration, topic: Topic, *, where: str | None = None
) -> int:
    """Delete dead letters at offsets that the target has recorded; return their number.

    `where` is an SQL condition on the columns of the dead letter table.
    """
    tables = TopicTables.of(configuration, topic)
    if not tables.dead_letters.exists() or not tables.target.exists():
        return 0
    covered = covered_offsets(topic.config.kafka_topic, tables.target.snapshot().transactions)
    if not covered:
        return 0
    offsets = " OR ".join(f"(partition = {p} AND offset < {o})" for p, o in covered.items())
    condition = f"topic = '{topic.config.kafka_topic}' AND ({offsets})"
    result = tables.dead_letters.delete(f"({where}) AND {condition}" if where else condition)
    return result.num_deleted_rows or 0
