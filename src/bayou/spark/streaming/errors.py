"""Refusals of a stream, under the names that delta-spark gives their conditions."""

from __future__ import annotations

from bayou.errors import ArgumentError, StreamingSourceError

__all__ = ["illegal_option", "refusal"]


def refusal(
    condition: str, message: str, *, table: str, version: int | None = None
) -> StreamingSourceError:
    """An error that stops the query; the message begins with the condition's name.

    Args:
        condition: delta-spark's error condition.
        message: what is wrong, at which version, which option helps.
        version: the version at fault, where it is one.
    """
    return StreamingSourceError(
        f"[{condition}] {message}", table=table, condition=condition, version=version
    )


def illegal_option(name: str, value: str, rule: str) -> ArgumentError:
    """The error for an option whose value makes no sense; the rule says what it must be."""
    return ArgumentError(
        f"[DELTA_ILLEGAL_OPTION] Invalid value {value!r} for option {name!r}: it must be {rule}.",
        argument=name,
    )
