"""Replays dead letters with the current schema, each of them at most once.

A replay commits rows to the target. Then it deletes the dead letters in a second commit. If the
replay crashes between the two commits, the next replay finds rows with the offsets of dead letters.
It deletes these dead letters and adds no rows for them. Two concurrent replays conflict, because
both increase the same transaction identifier of the target.

A row and a dead letter with the same offset can also belong to different records, for example if
the topic was deleted and recreated. If nothing shows that both belong to the same record, the dead
letter isn't replayed and isn't deleted; see `record_identity`.

If the target hasn't recorded the offset of a dead letter yet, the next run of the pipeline
processes the record again. A replay skips such a dead letter. Likewise, it skips a dead letter of a
migrated batch if the target doesn't have the batch yet.
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
    """Replay the dead letters of a topic.

    If a dead letter can now become a row, the row is written to the target, and the dead letter is
    deleted. The pipeline can run at the same time.

    Args:
        where: an SQL condition on the columns of the dead letter table; if None, all dead letters
            of the topic are replayed.
        dry_run: if true, nothing is written or deleted.

    Returns:
        The numbers of dead letters with each result.
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
    """Delete the dead letters of records that the pipeline won't read again; return their number.

    A Kafka record isn't read again if the target has recorded its offset. Dead letters of records
    from migrated files or from programs are always deleted.

    Args:
        where: an SQL condition on the columns of the dead letter table; if None, all of these dead
            letters are deleted.
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
