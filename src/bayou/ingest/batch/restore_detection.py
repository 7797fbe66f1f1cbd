"""Whether a table was restored behind a pipeline's back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayou.errors import PipelineError
from bayou.ingest.config import Topic
from bayou.kernel import Engine, Table

__all__ = ["INGEST", "check_not_restored"]

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
