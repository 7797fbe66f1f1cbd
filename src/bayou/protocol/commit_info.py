"""The `commitInfo` action as delta-spark writes it (PROTOCOL.md, Commit Provenance Information)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayou.protocol.actions import CommitInfo

__all__ = ["commit_info", "operation_parameters_in_log"]


def commit_info(
    *,
    timestamp: int,
    operation: str,
    operation_parameters: Mapping[str, object],
    engine_info: str,
    txn_id: str,
    is_blind_append: bool,
    read_version: int | None = None,
    isolation_level: str = "Serializable",
    operation_metrics: Mapping[str, object] | None = None,
    user_metadata: str | None = None,
    in_commit_timestamp: int | None = None,
    tags: Mapping[str, str] | None = None,
) -> CommitInfo:
    """Build the `commitInfo` action.

    Args:
        timestamp: timestamp of the commit, ms since the epoch.
        operation: name of the operation, such as `WRITE`.
        operation_parameters: Python values; `operation_parameters_in_log` encodes them.
        engine_info: name and version of the writer, such as `bayou/0.1.0`.
        txn_id: unique id of the commit attempt, by which a writer recognizes its own commit.
        is_blind_append: the commit only adds files, and the transaction read none.
        read_version: the version that the transaction read; None for a new table.
        isolation_level: isolation level of the commit.
        operation_metrics: numbers, written as strings; None for no metrics.
        user_metadata: free text of the user.
        in_commit_timestamp: the in-commit timestamp, if the table has the feature.
        tags: the commit's tags, as delta-spark writes them.
    """
    values: dict[str, Any] = {}
    if in_commit_timestamp is not None:
        values["inCommitTimestamp"] = in_commit_timestamp
    values["timestamp"] = timestamp
    values["operation"] = operation
    values["operationParameters"] = operation_parameters_in_log(operation_parameters)
    if read_version is not None:
        values["readVersion"] = read_version
    values["isolationLevel"] = isolation_level
    values["isBlindAppend"] = is_blind_append
    if operation_metrics is not None:
        values["operationMetrics"] = {key: str(value) for key, value in operation_metrics.items()}
    if user_metadata is not None:
        values["userMetadata"] = user_metadata
    if tags:
        values["tags"] = dict(tags)
    values["engineInfo"] = engine_info
    values["txnId"] = txn_id
    return CommitInfo(values)


def operation_parameters_in_log(parameters: Mapping[str, object]) -> dict[str, object]:
    """Operation parameters as the log stores them.

    Strings, numbers, booleans and null are stored unchanged (`"auto":false`). Lists and objects
    are stored as a string of JSON (`"partitionBy":"[]"`).
    """
    return {
        key: value
        if value is None or isinstance(value, str | int | float)
        else msgspec.json.encode(value).decode()
        for key, value in parameters.items()
    }
