"""The argument `commit_metadata` of the calls that commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from bayou.api.argument_checks import checked_strings
from bayou.errors import ArgumentError

CommitMetadata: TypeAlias = str | Mapping[str, str]
"""What a commit records for its readers, shown by `history`: a string becomes the entry
`userMetadata`, as in Spark; a dictionary is added to the commit's entries."""


def checked_commit_metadata(value: object) -> CommitMetadata | None:
    """Check commit metadata, which may be None."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise ArgumentError(
            f"commit_metadata: it is a {type(value).__name__}. Give a string, or a dictionary of "
            "strings.",
            argument="commit_metadata",
        )
    entries = checked_strings(value, "commit_metadata")
    for key in entries:
        if key in _WRITTEN_BY_BAYOU:
            raise ArgumentError(
                f"commit_metadata: {key} is an entry that Bayou writes. Use another name.",
                argument="commit_metadata",
            )
    return dict(entries)


_WRITTEN_BY_BAYOU = frozenset(
    {
        "timestamp",
        "inCommitTimestamp",
        "operation",
        "operationParameters",
        "operationMetrics",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "engineInfo",
        "txnId",
        "tags",
        "version",
    }
)
