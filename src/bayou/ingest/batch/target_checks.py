"""Whether a table is what a topic's records can go to."""

from __future__ import annotations

import json

from bayou.errors import PipelineError
from bayou.ingest.batch.rows import KAFKA_COLUMNS
from bayou.ingest.config import Topic
from bayou.ingest.offsets import KafkaTopic, check_not_recreated
from bayou.kernel import Snapshot

__all__ = ["KEY_COLUMNS", "TRANSACTION_RETENTION", "check_target"]

KEY_COLUMNS = "bayou.keyColumns"
"""The property by which a table of upserts says of which columns each key has one row."""

TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
"""The property by which a table would forget offsets."""


def check_target(topic: Topic, kafka: KafkaTopic | None, snapshot: Snapshot) -> None:
    """Refuse a table that can't be this topic's.

    Args:
        kafka: the topic as its broker tells; None where rows come from elsewhere.

    Raises:
        PipelineError: says what doesn't fit, and what to do.
    """
    key = topic.key
    if kafka is not None:
        check_not_recreated(kafka, snapshot.transactions, key=key)
    missing = [n for n in KAFKA_COLUMNS.names if n not in snapshot.schema.names]
    if missing:
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} exists and has no column {missing[0]!r}, so it wasn't "
            "made by this pipeline; write to another table-path.",
            topic=key,
        )
    if topic.upsert_keys is not None and "_kafka_timestamp" not in snapshot.schema.names:
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} has no column '_kafka_timestamp', so its rows were "
            "appended and a key may have several; enable-upsert needs another table-path (or "
            "turn it off).",
            topic=key,
        )
    _check_keys(topic, snapshot)
    wanted = topic.config.destination.partition_columns
    if tuple(wanted) != tuple(snapshot.partition_columns):
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} is partitioned by "
            f"({', '.join(snapshot.partition_columns)}), partition-columns says "
            f"({', '.join(wanted)}); make them agree or write to another table-path.",
            topic=key,
        )
    if TRANSACTION_RETENTION in snapshot.properties:
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} has the property {TRANSACTION_RETENTION}, by which "
            "it would forget which offsets it covers and take records twice; unset it.",
            topic=key,
        )


def _check_keys(topic: Topic, snapshot: Snapshot) -> None:
    keys, made = topic.upsert_keys, snapshot.properties.get(KEY_COLUMNS)
    if keys is None or made is None:
        return
    columns = json.loads(made)
    if sorted(columns) != sorted(keys.columns):
        key = topic.key
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} has one row for each ({', '.join(columns)}), "
            f"key-columns says ({', '.join(keys.columns)}); write them as they were, or write "
            "to another table-path.",
            topic=key,
        )
