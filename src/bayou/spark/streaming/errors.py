"""Errors of a stream, with delta-spark's error conditions."""

from __future__ import annotations

from bayou.errors import ArgumentError, StreamingSourceError


def streaming_error(
    condition: str, message: str, *, table: str, version: int | None = None
) -> StreamingSourceError:
    """Return an error that stops the query, with delta-spark's error condition.

    Args:
        version: the table version that causes the error; None if no single version causes it.
    """
    return StreamingSourceError(
        f"[{condition}] {message}", table=table, condition=condition, version=version
    )


def missing_commits_error(table: str, problem: str, version: int) -> StreamingSourceError:
    """Return an error for a table that may have been replaced by an older copy.

    Args:
        problem: the sentence that describes which commits are missing.
        version: the first missing version.
    """
    return streaming_error(
        "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
        f"Table {table}: commits are missing. {problem} The table may have been restored from an "
        "older copy. Restore the commits, or start the query with a new checkpointLocation.",
        table=table,
        version=version,
    )


def illegal_option(name: str, value: str, rule: str) -> ArgumentError:
    """Return an error for an invalid value of an option; `rule` describes valid values."""
    return ArgumentError(
        f"[DELTA_ILLEGAL_OPTION] Option {name!r}: invalid value {value!r}. It must be {rule}.",
        argument=name,
    )
