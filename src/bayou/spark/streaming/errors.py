"""Errors of a stream, with delta-spark's error conditions."""

from __future__ import annotations

from bayou.errors import ArgumentError, StreamingSourceError

__all__ = ["illegal_option", "streaming_error"]


def streaming_error(
    condition: str, message: str, *, table: str, version: int | None = None
) -> StreamingSourceError:
    """An error that stops the query; its message starts with the condition.

    Args:
        condition: delta-spark's error condition.
        message: the table, what is wrong, and what to do.
        table: the table's path.
        version: the version that causes the error; None if it isn't one version.
    """
    return StreamingSourceError(
        f"[{condition}] {message}", table=table, condition=condition, version=version
    )


def illegal_option(name: str, value: str, rule: str) -> ArgumentError:
    """The error for an invalid value of an option; `rule` describes valid values."""
    return ArgumentError(
        f"[DELTA_ILLEGAL_OPTION] Option {name!r}: invalid value {value!r}. It must be {rule}.",
        argument=name,
    )
