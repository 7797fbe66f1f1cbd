"""Whether a table is what a topic's records can go to.

Whether a table was restored behind a pipeline's back.
"""

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


INGEST = " (ingest)"
"""How the engine's name ends in commits of pipelines."""


def check_not_restored(
    engine: Engine, table: Table, topic: Topic, version: int, known: int | None
) -> None:
    """Refuse a RESTORE, which takes rows out and leaves the offsets that the table covers.

    Args:
        version: the latest.
        known: only commits after this version count; None: those after the last commit of a
            pipeline.

    Raises:
        PipelineError: there is one that the topic's `accept-restore` doesn't name.
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
                "taken out rows whose offsets the table still covers, so that they won't be "
                f"read again. If that is meant, set connector.topics.{key}.accept-restore: "
                f"{restored}, and the pipeline goes on behind those offsets; to have the rows "
                f"back, RESTORE the table to version {restored - 1} and accept that; to take "
                "all records again, write to another table-path.",
                topic=key,
            )


def _newest_commits(
    engine: Engine, table: Table, version: int, known: int | None
) -> Iterator[dict[str, Any]]:
    """Commits after a version, newest first; where None as many as the log has."""
    if known is not None:
        newest, commits = version, table.history(engine, version - known)
        while commits and commits[0]["version"] > newest:  # others have committed since
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
