"""Checks of schema changes, for streams without a schema tracking log."""

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
from bayou.spark.streaming.errors import streaming_error


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSchema:
    """The schema that a stream reads: the table's schema when the stream was opened.

    Attributes:
        state: the table's state when the stream was opened.
        has_starting_position: whether `startingVersion` or `startingTimestamp` is set.
    """

    state: TableState
    has_starting_position: bool

    def check(self, metadata: Metadata, version: int, *, at_start: bool) -> None:
        """Raise an error if the rows of a version can't be read with this schema.

        Args:
            metadata: the metadata of the version.
            at_start: whether the check runs before the stream's first batch. It only affects the
                error message.
        """
        table, read_metadata = self.state.path, self.state.metadata
        is_older = version < self.state.version
        if metadata.id != read_metadata.id:
            raise _another_table(table, metadata.id if not is_older else read_metadata.id, version)
        old, new = (metadata, read_metadata) if is_older else (read_metadata, metadata)
        change = changes_between(table, old, new)
        if change.renamed or change.dropped or change.other:
            columns = ", ".join((*change.renamed, *(f"{d} dropped" for d in change.dropped)))
            when = "before the stream starts" if at_start else "while the stream runs"
            raise streaming_error(
                "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
                f"Table {table}: {when}, the schema changes in an incompatible way "
                f"({columns or change.other}). The stream uses the schema of version "
                f"{self.state.version}, and version {version} has another schema. To follow "
                "schema changes, set the option 'schemaTrackingLocation' to a folder below the "
                "checkpointLocation. Or start after the change with a new checkpointLocation.",
                table=table,
                version=version,
            )
        widens = widens_types(self.state.protocol)
        problem = read_problem(table, metadata, read_metadata, widens=is_older and widens)
        if problem is None:
            return
        retryable = (
            not is_older and read_problem(table, read_metadata, metadata, widens=widens) is None
        )
        raise self._changed(version, problem, retryable=retryable)

    def _changed(self, version: int, problem: str, *, retryable: bool) -> StreamingSourceError:
        condition = "DELTA_SCHEMA_CHANGED_WITH_VERSION"
        if self.has_starting_position:
            condition = "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS"
        action = (
            "Restart the query to continue with the new schema."
            if retryable
            else "A stream can't read rows of both schemas. Start the query with a new "
            "checkpointLocation"
            + (
                " and a startingVersion or startingTimestamp after the change."
                if self.has_starting_position
                else "."
            )
        )
        return streaming_error(
            condition,
            f"Table {self.state.path}: detected schema change in version {version}. The stream "
            f"uses the schema of version {self.state.version}. Compared with this schema, "
            f"{problem}. {action}",
            table=self.state.path,
            version=version,
        )


def _another_table(table: str, table_id: str, version: int) -> StreamingSourceError:
    return streaming_error(
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        f"Table {table}: version {version} has another table id ({table_id}), because the table "
        "was replaced while the stream read it. Start the query with a new checkpointLocation.",
        table=table,
        version=version,
    )
