"""Changes of schema under a stream that doesn't track them: what passes, and what stops it."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.errors import StreamingSourceError
from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_changes.schema_changes import (
    changes_between,
    read_problem,
    widens_types,
)
from bayou.protocol.actions import Metadata
from bayou.spark.streaming.errors import refusal

__all__ = ["ReadSchema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSchema:
    """The schema that a stream reads with: that of the version at which it was opened.

    Attributes:
        state: that version.
        starts_somewhere: whether `startingVersion` or `startingTimestamp` is set.
    """

    state: TableState
    starts_somewhere: bool

    def check(self, metadata: Metadata, version: int, *, at_start: bool) -> None:
        """Refuse metadata whose rows this schema can't read.

        Args:
            metadata: as a version sets it, or as it holds where the stream starts.
            version: that version.
            at_start: whether it is looked at before the stream begins, not on its way.

        Raises:
            StreamingSourceError: names the version, and what helps: a restart, or
                `schemaTrackingLocation`.
        """
        table, own = self.state.path, self.state.metadata
        behind = version < self.state.version
        if metadata.id != own.id:
            raise _another_table(table, metadata.id if not behind else own.id, version)
        old, new = (metadata, own) if behind else (own, metadata)
        change = changes_between(table, old, new)
        if change.renamed or change.dropped or change.other:
            what = ", ".join((*change.renamed, *(f"{d} dropped" for d in change.dropped)))
            when = "before the stream starts" if at_start else "while the stream runs"
            raise refusal(
                "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
                f"The schema of {table} at version {version} and that of version "
                f"{self.state.version}, with which the stream reads, differ by more than added "
                f"columns ({what or change.other}), {when}. Set the option "
                "'schemaTrackingLocation' to a folder below the checkpointLocation to follow such "
                "changes, or start behind the change with a new checkpoint.",
                table=table,
                version=version,
            )
        widens = widens_types(self.state.protocol)
        problem = read_problem(table, metadata, own, widens=behind and widens)
        if problem is None:
            return
        retryable = not behind and read_problem(table, own, metadata, widens=widens) is None
        raise self._changed(version, problem, retryable=retryable)

    def _changed(self, version: int, problem: str, *, retryable: bool) -> StreamingSourceError:
        condition = "DELTA_SCHEMA_CHANGED_WITH_VERSION"
        if self.starts_somewhere:
            condition = "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS"
        help_text = (
            "Start the query again: it goes on with the new schema."
            if retryable
            else "No stream can read rows of both. Start over with a new checkpointLocation"
            + (
                " and a startingVersion or startingTimestamp behind the change."
                if self.starts_somewhere
                else "."
            )
        )
        return refusal(
            condition,
            f"The schema of {self.state.path} changed in version {version}: the stream reads with "
            f"that of version {self.state.version}, and compared to it {problem}. {help_text}",
            table=self.state.path,
            version=version,
        )


def _another_table(table: str, table_id: str, version: int) -> StreamingSourceError:
    return refusal(
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        f"Version {version} of {table} has another table id ({table_id}): the table was replaced "
        "while it was read. Start over with a new checkpointLocation.",
        table=table,
        version=version,
    )
