"""Replays dead letters with the current schema, each of them at most once.

A replay commits rows to the target, then deletes the dead letters. After a crash between the two
commits, the target has rows with the offsets of these dead letters, so the next replay only deletes
the dead letters. If no replay was interrupted, a row at the offset of a dead letter is of another
record, and the dead letter remains. Two concurrent replays conflict, because both increase the same
transaction identifier of the target. Dead letters at offsets that the target hasn't recorded yet
are skipped, because the next run of the pipeline processes their records again. For the same
reason, dead letters of a migrated batch that the target doesn't have yet are skipped.
"""

from __future__ import annotations

from bayou.api.conditions import combine_with_and
from bayou.errors import CommitConflictError
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.dead_letters.append_replay import AppendReplay, ReplayResult
from bayou.ingest.dead_letters.routed_replay import RoutedReplay
from bayou.ingest.dead_letters.upsert_replay import replay_upserts
from bayou.ingest.inspection import TopicTables
from bayou.ingest.offsets import covered_offsets
from bayou.ingest.schema.files import topic_schemas

_ATTEMPTS = 5


def replay_dead_letters(
    configuration: Configuration, topic: Topic, *, where: str | None = None, dry_run: bool = False
) -> ReplayResult:
    """Replay the dead letters of a topic, and count the results.

    If a dead letter can now become a row, the row is written to the target, and the dead letter is
    deleted. The pipeline may run at the same time. `where` selects dead letters: an SQL condition
    on the columns of the dead letter table. If `dry_run` is true, nothing is written or deleted.
    """
    if topic.upsert_keys is not None:
        return replay_upserts(configuration, topic, where=where, dry_run=dry_run)
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

    Dead letters of records from migrated files or from programs have no Kafka offset, so they are
    deleted without this check. `where` selects dead letters: an SQL condition on the columns of the
    dead letter table.
    """
    tables = TopicTables.of(configuration, topic)
    if not tables.dead_letters.exists() or not tables.target.exists():
        return 0
    covered = covered_offsets(topic.config.kafka_topic, tables.target.snapshot().transactions)
    covered_letters = (f"(partition = {p} AND offset < {o})" for p, o in covered.items())
    offsets = " OR ".join(("partition < 0", *covered_letters))
    condition = f"topic = '{topic.config.kafka_topic}' AND ({offsets})"
    result = tables.dead_letters.delete(combine_with_and(condition, where))
    return result.num_deleted_rows or 0
