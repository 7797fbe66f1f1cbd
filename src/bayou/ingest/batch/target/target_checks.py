"""Checks that a table can be a topic's target.

The table must match the topic's columns, upsert keys and partition columns. Its recorded offsets
must belong to the same Kafka topic. A RESTORE of the table is an error until the user accepts it,
because the restored rows no longer match the recorded offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayou.errors import PipelineError
from bayou.ingest.batch.metadata_columns import KAFKA_COLUMNS
from bayou.ingest.batch.target.restore_detection import missing_last_rows
from bayou.ingest.config import Topic
from bayou.ingest.offsets import KafkaTopic, check_not_recreated, covered_offsets
from bayou.ingest.upsert_order import UpsertKeys
from bayou.kernel import Engine, Operation, Snapshot, Table
from bayou.protocol.schema import STRING
from bayou.version import INGEST_SUFFIX

_KEY_COLUMNS = "bayou.keyColumns"
"""The table property that stores the names of the upsert key columns."""

_HASHED_KEY_COLUMNS = "bayou.hashedKeyColumns"
"""The table property that stores the upsert key columns with the column mask `hash`.

The property isn't set if no key column has this mask.
"""

_FORMATTED_KEY_COLUMNS = "bayou.formattedKeyColumns"
"""The table property that stores the upsert key and ordering columns with a timestamp format."""

_ORDERING_COLUMN = "bayou.orderingColumn"
"""The table property that stores the ordering column of an upsert; empty if there is none."""

TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
"""The table property that sets when transaction identifiers, which record offsets, expire."""


def check_target(topic: Topic, kafka: KafkaTopic | None, snapshot: Snapshot) -> None:
    """Check that a table can be the target of a topic.

    Args:
        kafka: the Kafka topic, to check that it wasn't recreated; None if the rows to write don't
            come from Kafka.
    """
    key = topic.key
    if kafka is not None:
        table = "the table" if topic.routed_table is None else snapshot.path
        check_not_recreated(kafka, snapshot.transactions, key=key, table=table)
    missing = [n for n in KAFKA_COLUMNS.names if n not in snapshot.schema.names]
    if missing:
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} has no column {missing[0]!r}, so the table wasn't "
            "created by this pipeline. Set another table-path.",
            topic=key,
        )
    if topic.upsert_keys is not None and "_kafka_timestamp" not in snapshot.schema.names:
        raise PipelineError(
            f"topic {key!r}: {snapshot.path} was written without enable-upsert (it has no column "
            "'_kafka_timestamp'), so a key may have several rows. Disable enable-upsert, or set "
            "another table-path.",
            topic=key,
        )
    check_keys(topic, snapshot)
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
            f"topic {key!r}: {snapshot.path} has the property {TRANSACTION_RETENTION}, so the "
            "table's offsets expire and records are read twice. Unset the property.",
            topic=key,
        )


def key_properties(topic: Topic) -> dict[str, str]:
    """Return the table properties that store a topic's upsert keys; empty if it has no keys."""
    if topic.upsert_keys is None:
        return {}
    properties = {
        _KEY_COLUMNS: json.dumps(topic.upsert_keys.columns),
        _ORDERING_COLUMN: topic.upsert_keys.ordering or "",
    }
    if hashed := _hashed_keys(topic):
        properties[_HASHED_KEY_COLUMNS] = json.dumps(hashed)
    if formatted := _formatted_keys(topic):
        properties[_FORMATTED_KEY_COLUMNS] = json.dumps(formatted)
    return properties


def _hashed_keys(topic: Topic) -> list[str]:
    masked = {path.lower() for path in topic.config.column_masks}
    columns = () if topic.upsert_keys is None else topic.upsert_keys.columns
    return sorted(column for column in columns if column.lower() in masked)


def _formatted_keys(topic: Topic) -> list[str]:
    keys = topic.upsert_keys
    columns = () if keys is None else (*keys.columns, *([keys.ordering] if keys.ordering else []))
    return sorted({column for column in columns if column in topic.config.column_timestamps})


def check_keys(topic: Topic, snapshot: Snapshot) -> None:
    """Check that the table's rows were written with the configured upsert settings.

    The settings are the key columns, the ordering column, and the hash masks and timestamp formats
    of these columns. If no upsert is configured, check that no upsert has written the table.
    """
    key, keys, path = topic.key, topic.upsert_keys, snapshot.path
    stored = snapshot.properties.get(_KEY_COLUMNS)
    columns: list[str] = [] if stored is None else json.loads(stored)
    if stored is None:
        if keys is not None and any(a.startswith(_PIPELINES) for a in snapshot.transactions):
            raise PipelineError(
                f"topic {key!r}: {path} was written without enable-upsert, so a key may have "
                "several rows. Disable enable-upsert, or set another table-path.",
                topic=key,
            )
        return
    if keys is None:
        raise PipelineError(
            f"topic {key!r}: {path} was written with key-columns ({', '.join(columns)}), but this "
            "topic appends records. Set enable-upsert and key-columns again, or set another "
            "table-path.",
            topic=key,
        )
    if sorted(columns) != sorted(keys.columns):
        raise PipelineError(
            f"topic {key!r}: {path} was written with key-columns ({', '.join(columns)}), but "
            f"key-columns is now ({', '.join(keys.columns)}). Restore the original key-columns, or "
            "set another table-path.",
            topic=key,
        )
    ordering = snapshot.properties.get(_ORDERING_COLUMN)
    if ordering is not None and ordering != (keys.ordering or ""):
        raise PipelineError(
            f"topic {key!r}: the records of each key in {path} were ordered by "
            f"{_order(ordering)}, but ordering-column is now {keys.ordering or 'not set'}. "
            "Restore the original ordering-column, or set another table-path.",
            topic=key,
        )
    stored_hashed: list[str] = json.loads(snapshot.properties.get(_HASHED_KEY_COLUMNS, "[]"))
    hashed = _hashed_keys(topic)
    if sorted(stored_hashed) != hashed:
        raise PipelineError(
            f"topic {key!r}: the key columns with the mask 'hash' are now "
            f"({', '.join(hashed) or 'none'}), but were ({', '.join(stored_hashed) or 'none'}) "
            f"for the rows in {path}, so each key would get a second row. Restore "
            "the original masks, or set another table-path.",
            topic=key,
        )
    formatted = json.loads(snapshot.properties.get(_FORMATTED_KEY_COLUMNS, "[]"))
    for name in sorted({*formatted} ^ {*_formatted_keys(topic)}):
        if name not in keys.columns and ordering is None:
            continue  # an earlier version didn't store the format of the ordering column
        field = snapshot.schema.get(name)
        if field is not None and field.data_type == STRING:  # stores timestamps as ISO 8601 strings
            raise PipelineError(
                f"topic {key!r}: since the rows in {path} were written, timestamp-formats was "
                f"{'removed' if name in formatted else 'added'} for the "
                f"{_consequence(keys, name)}. Restore the original timestamp-formats, or set "
                "another table-path.",
                topic=key,
            )


def _order(ordering: str) -> str:
    return (
        f"ordering-column {ordering}" if ordering else "Kafka's timestamps, without ordering-column"
    )


def _consequence(keys: UpsertKeys, name: str) -> str:
    if name in keys.columns:
        return f"key column {name!r}, so each key would get a second row"
    return f"ordering column {name!r}, so records would be ordered by strings of several formats"


_MIGRATION = "migration/"
_PIPELINES = ("kafka/", _MIGRATION)
"""`appId` prefixes of the transaction identifiers that pipelines and migrations record."""


CHECKED_VERSION = "bayou.checkedVersion"
"""The commit tag with the version up to which the table was checked for a RESTORE.

Only commits without transaction identifiers need this tag. A commit with identifiers conflicts with
a concurrent RESTORE, so no RESTORE can be between the check and the commit.
"""

NEWEST_RESTORE = "bayou.newestRestore"
"""The commit tag with the version of the newest RESTORE that `check_not_restored` found."""


def restore_app_id(table_id: str, kafka_topic: str) -> str:
    """Return the `appId` of the transaction identifier that records a RESTORE.

    After a RESTORE passes `check_not_restored`, the topic's next commit records the version of the
    RESTORE in this identifier. Each topic has its own identifier: if several topics write to the
    table, the user must accept the RESTORE for each topic.
    """
    return f"{_RESTORE}{table_id}/{kafka_topic}"


def is_restore_app_id(application: str) -> bool:
    """Whether an `appId` was created by `restore_app_id`."""
    return application.startswith(_RESTORE)


_RESTORE = "restore/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCheck:
    """The result of `check_not_restored`.

    Attributes:
        newest: the version of the newest RESTORE; -1 if there is none. If log cleanup deleted
            commits before they were checked, this is the version of the last deleted commit,
            because that commit may be a RESTORE.
        since: the timestamp of the oldest commit that the check read, in ms since the epoch; None
            if `check_not_restored` was called with a `known` version.
    """

    newest: int
    since: int | None = None


def check_not_restored(
    engine: Engine, table: Table, topic: Topic, latest: Snapshot, known: int | None
) -> RestoreCheck:
    """Check that the table wasn't restored since the topic's last commit.

    A RESTORE removes rows, but it keeps the transaction identifiers that record the offsets of
    these rows. A pipeline therefore wouldn't read the records of the removed rows again. A RESTORE
    passes the check in each of these cases:

    - The setting `accept-restore` is the version of the RESTORE, or a later version.
    - The topic has recorded the RESTORE in an earlier commit; see `restore_app_id`.
    - The table records neither offsets of the topic nor batches of migrated files.

    If log cleanup has deleted commits before they were checked, one of them may be a RESTORE. In
    this case, the table passes the check if it has both of these:

    - For each Kafka partition, the row of the last recorded offset.
    - For each folder of files that were migrated to the table, a row of the last migrated batch.

    Args:
        latest: the latest version of the table.
        known: a version up to which the table was checked before; only later commits are checked.
            If None, the check reads the log back to the last commit of a pipeline.

    Raises:
        PipelineError: the table was restored, or may have been restored.
    """
    check = _newest_restore(engine, table, latest, known)
    restored = check.newest
    name, transactions = topic.config.kafka_topic, latest.transactions
    accepted = topic.config.accept_restore
    accepted = -1 if accepted is None else accepted
    recorded = transactions.get(restore_app_id(latest.table_id, name), -1)
    has_offsets = bool(covered_offsets(name, transactions)) or any(
        application.startswith(_MIGRATION) for application in transactions
    )
    if not has_offsets or restored <= max(accepted, recorded):
        return check
    key = topic.key
    if _is_restore(engine, table, restored):
        raise PipelineError(
            f"topic {key!r}: version {restored} of {table.path} is a RESTORE. The RESTORE may "
            "have removed rows, but the table still records the offsets of these rows, so their "
            "records won't be read again. To continue without these rows, set "
            f"{topic.restore_setting(restored)}. To recover the rows, RESTORE the table to "
            f"version {restored - 1}, and then set {topic.restore_setting('VERSION')}, where "
            "VERSION is the version that this RESTORE creates. To read all records again, set "
            "another table-path.",
            topic=key,
        )
    if missing := missing_last_rows(engine, topic, latest):
        raise PipelineError(
            f"topic {key!r}: {table.path} may have been restored: log cleanup has deleted the "
            f"commits up to version {restored}, and the table has no row of {missing[0]}. If a "
            "RESTORE has removed rows, their records won't be read again. To find missing rows, "
            "run bayou verify. If no rows are missing, or if you don't need them, set "
            f"{topic.restore_setting(restored)}. To read all records again, set another "
            "table-path.",
            topic=key,
        )
    return check


def _is_restore(engine: Engine, table: Table, version: int) -> bool:
    """Whether a version is a RESTORE; False if log cleanup has deleted its commit."""
    commits = (c for c in table.history(engine) if c["version"] == version)
    return any(commit.get("operation") == Operation.RESTORE for commit in commits)


def _newest_restore(
    engine: Engine, table: Table, latest: Snapshot, known: int | None
) -> RestoreCheck:
    prefix = restore_app_id(latest.table_id, "")
    recorded = (v for app, v in latest.transactions.items() if app.startswith(prefix))
    newest, checked = max(recorded, default=-1), -1
    oldest, since = latest.version + 1, None
    for commit in _newest_commits(engine, table, latest.version, known):
        version = commit["version"]
        since = commit["timestamp"] if known is None else None
        if version <= max(checked, newest):
            break
        oldest = version
        operation, engine_info = commit.get("operation"), str(commit.get("engineInfo"))
        if operation == Operation.RESTORE:
            newest = version
            break
        # Skip auto compactions of the pipeline: they commit without looking for a RESTORE.
        if (
            known is None
            and engine_info.endswith(INGEST_SUFFIX)
            and operation != Operation.OPTIMIZE
        ):
            tags = commit.get("tags") or {}
            if CHECKED_VERSION not in tags:  # a check preceded it, and a RESTORE conflicts with it
                break
            checked = max(checked, int(tags[CHECKED_VERSION]))
            newest = max(newest, int(tags.get(NEWEST_RESTORE, -1)))
    else:
        before = -1 if known is None else known
        if oldest - 1 > max(before, checked, newest):  # log cleanup has deleted commits
            newest = oldest - 1
    return RestoreCheck(newest=newest, since=since)


def _newest_commits(
    engine: Engine, table: Table, version: int, known: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the commits after the version `known`, newest first; all commits if `known` is None."""
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
