"""Errors of a stream, with delta-spark's error conditions."""

from __future__ import annotations

from bayou.errors import ArgumentError, StreamingSourceError


def streaming_error(
    condition: str, message: str, *, table: str, version: int | None = None
) -> StreamingSourceError:
    """Return an error that stops the query, with delta-spark's error condition.

    Args:
        version: the table version that causes the error; None if it isn't one version.
    """
    return StreamingSourceError(
        f"[{condition}] {message}", table=table, condition=condition, version=version
    )


def illegal_option(name: str, value: str, rule: str) -> ArgumentError:
    """Return an error for an invalid value of an option; `rule` describes valid values."""
    return ArgumentError(
        f"[DELTA_ILLEGAL_OPTION] Option {name!r}: invalid value {value!r}. It must be {rule}.",
        argument=name,
    )
