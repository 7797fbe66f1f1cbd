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
    """Build the action.

    Args:
        timestamp: of the commit, ms since the epoch.
        operation: its name, such as `WRITE`.
        operation_parameters: plain values; see `operation_parameters_in_log` for their form.
        engine_info: who commits, `bayou/0.1.0`.
        txn_id: unique for the attempt, by which a writer knows its own commit.
        is_blind_append: it only adds files, and read none.
        read_version: the version it was made from; None for a new table.
        isolation_level: of the commit.
        operation_metrics: numbers, written as strings; None where there are none.
        user_metadata: free text of the user.
        in_commit_timestamp: the commit's own timestamp, where the table has them.
        tags: of delta-spark's, by which a commit says more of itself.
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
    """Parameters in their form in the log.

    Strings, numbers, true, false and null stay what they are (`"auto":false`); lists and objects
    become JSON text in a string (`"partitionBy":"[]"`).
    """
    return {
        key: value
        if value is None or isinstance(value, str | int | float)
        else msgspec.json.encode(value).decode()
        for key, value in parameters.items()
    }
