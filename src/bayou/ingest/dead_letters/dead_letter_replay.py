"""Replays dead letters with the current schema, each of them at most once.

A replay commits rows to the target. Then it deletes the dead letters, in a second commit. If the
replay crashes between the two commits, the target has rows with the offsets of dead letters. The
next replay deletes these dead letters and adds no rows for them. If the topic was deleted and
recreated, or files were migrated again, a row at the offset of a dead letter can be of another
record. If nothing shows that the row is of the same record, the dead letter remains; see
`record_identity`. Two concurrent replays conflict, because both increase the same transaction
identifier of the target.

A dead letter is skipped if the target hasn't recorded its offset yet, because the next run of the
pipeline processes the record again. A dead letter of a migrated batch is skipped if the target
doesn't have the batch yet, because the migration processes the record again.
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
    deleted. The pipeline can run at the same time.

    Args:
        where: an SQL condition on the columns of the dead letter table; if None, all dead letters
            of the topic are replayed.
        dry_run: if true, nothing is written or deleted.
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
    """Delete the dead letters whose offsets the topic's table has recorded; return their number.

    Records from migrated files or from programs have no Kafka offset, so their dead letters are
    deleted without a check of the offset.

    Args:
        where: an SQL condition on the columns of the dead letter table; if None, all of these
            dead letters are deleted.
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
