"""Checks of a target table: its columns, keys, partitioning and offsets, and a RESTORE."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bayou.errors import PipelineError
from bayou.ingest.batch.rows import KAFKA_COLUMNS
from bayou.ingest.config import Topic
from bayou.ingest.offsets import KafkaTopic, check_not_recreated
from bayou.kernel import Engine, Snapshot, Table

__all__ = ["INGEST", "KEY_COLUMNS", "TRANSACTION_RETENTION", "check_not_restored", "check_target"]


KEY_COLUMNS = "bayou.keyColumns"
"""The table property with the key columns of an upsert."""

TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
"""The table property that lets transaction identifiers, and so offsets, expire."""


def check_target(topic: Topic, kafka: KafkaTopic | None, snapshot: Snapshot) -> None:
    """Check that a table can be the target of a topic.

    Args:
        topic: the topic.
        kafka: the description of the Kafka topic; None if rows come from elsewhere.
        snapshot: the table's latest snapshot.

    Raises:
        PipelineError: the table can't be the target.
    """
    key = topic.key
    if kafka is not None:
        check_not_recreated(kafka, snapshot.transactions, key=key)
    missing = [n for n in KAFKA_COLUMNS.names if n not in snapshot.schema.names]
    if missing:
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} has no column {missing[0]!r}, so it wasn't created by "
            "this pipeline. Set another table-path.",
            topic=key,
        )
    if topic.upsert_keys is not None and "_kafka_timestamp" not in snapshot.schema.names:
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} has no column '_kafka_timestamp', so its rows were "
            "appended and a key may have several rows. Set another table-path for enable-upsert, "
            "or disable it.",
            topic=key,
        )
    _check_keys(topic, snapshot)
    configured = topic.config.destination.partition_columns
    if tuple(configured) != tuple(snapshot.partition_columns):
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} is partitioned by "
            f"({', '.join(snapshot.partition_columns)}), but partition-columns is "
            f"({', '.join(configured)}). Correct partition-columns, or set another table-path.",
            topic=key,
        )
    if TRANSACTION_RETENTION in snapshot.properties:
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} has the property {TRANSACTION_RETENTION}, with which "
            "the table's offsets expire and records are read twice. Unset the property.",
            topic=key,
        )


def _check_keys(topic: Topic, snapshot: Snapshot) -> None:
    keys, stored = topic.upsert_keys, snapshot.properties.get(KEY_COLUMNS)
    if keys is None or stored is None:
        return
    columns = json.loads(stored)
    if sorted(columns) != sorted(keys.columns):
        key = topic.key
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} has one row for each ({', '.join(columns)}), but "
            f"key-columns is ({', '.join(keys.columns)}). Restore the original key-columns, or set "
            "another table-path.",
            topic=key,
        )


INGEST = " (ingest)"
"""Suffix of `engineInfo` in commits of pipelines."""


def check_not_restored(
    engine: Engine, table: Table, topic: Topic, version: int, known: int | None
) -> None:
    """Check for a RESTORE, which removes rows but keeps the offsets that the table covers.

    Args:
        engine: the engine.
        table: the table.
        topic: the topic.
        version: the latest version.
        known: check commits after this version; None for those after a pipeline's last commit.

    Raises:
        PipelineError: the topic's `accept-restore` doesn't accept a RESTORE.
    """
    accepted = topic.config.accept_restore
    accepted = -1 if accepted is None else accepted
    for commit in _newest_commits(engine, table, version, known):
        restored = commit["version"]
        if known is None and str(commit.get("engineInfo")).endswith(INGEST):
            return
        if commit.get("operation") == "RESTORE" and restored > accepted:
            key = topic.key
            raise PipelineError(
                f"topic {key!r}: version {restored} of {table.path} is a RESTORE. It may have "
                "removed rows whose offsets the table still covers, so they won't be read again. "
                f"To accept this, set connector.topics.{key}.accept-restore: {restored}, and the "
                "pipeline resumes after those offsets. To recover the rows, RESTORE the table to "
                f"version {restored - 1} and accept that version. To read all records again, set "
                "another table-path.",
                topic=key,
            )


def _newest_commits(
    engine: Engine, table: Table, version: int, known: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the commits after a version, newest first; None for all commits of the log."""
    if known is not None:
        newest, commits = version, table.history(engine, version - known)
        while commits and commits[0]["version"] > newest:  # commits were added meanwhile
            newest = commits[0]["version"]
            commits = table.history(engine, newest - known)
        yield from commits
        return
    seen = 0
    for limit in (1, 16, None):
        commits = table.history(engine, limit)
        yield from commits[seen:]
        if len(commits) == seen or (limit is not None and len(commits) < limit):
            return
        seen = len(commits)
