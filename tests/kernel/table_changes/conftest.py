"""A table in memory with the change data feed on, files and all."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.kernel import CommitBoundary, Table, TableChanges, read_change_file
from support.log_writer import LogWriter, WireAction, add, metadata, protocol, remove

FEED = {"delta.enableChangeDataFeed": "true"}


class FeedTable:
    """Writes data files and commits; columns `id` long, `name` string, unless told otherwise."""

    def __init__(self, log: LogWriter) -> None:
        self.log = log
        self.engine = log.engine
        self.path = log.table
        self._sizes: dict[str, int] = {}

    def create(
        self,
        fields: Mapping[str, Any] | None = None,
        partition_columns: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        self.commit(
            protocol(1, 4),
            metadata(
                fields or {"id": "long", "name": "string"},
                partition_columns,
                {**FEED, **(configuration or {})},
            ),
        )

    def commit(self, *actions: WireAction, time: int | None = None) -> int:
        """Write a commit; its time is 1000 ms times its number, unless told otherwise."""
        version = self.log.commit(*actions)
        path = self.log.path(f"{version:020d}.json")
        self.engine.files.set_modification_time(path, 1000 * version if time is None else time)
        return version

    def write(self, path: str, row_group_size: int = 1000, /, **columns: Any) -> None:
        """Write a data file; a column is a list, or an array where its type can't be guessed."""
        self.write_table(path, pa.table(columns), row_group_size)

    def write_table(self, name: str, data: pa.Table, row_group_size: int = 1000) -> None:
        """Write a data file with the fields as they are."""
        sink = io.BytesIO()
        pq.write_table(data, sink, row_group_size=row_group_size)
        self._sizes[name] = len(sink.getvalue())
        self.engine.files.put(f"{self.path}/{name}", sink.getvalue())

    def add(self, name: str, values: Mapping[str, str | None] | None = None, **fields: Any):
        return add(name, partition_values=values, size=self._sizes[name], **fields)

    def remove(self, name: str, values: Mapping[str, str | None] | None = None, **fields: Any):
        """A remove with extended metadata, as all writers of the feed write it."""
        return remove(
            name,
            extendedFileMetadata=True,
            partitionValues=dict(values or {}),
            size=self._sizes[name],
            **fields,
        )

    def cdc(self, name: str, values: Mapping[str, str | None] | None = None) -> WireAction:
        return {
            "cdc": {
                "path": name,
                "partitionValues": dict(values or {}),
                "size": self._sizes[name],
                "dataChange": False,
            }
        }

    def changes(self, start: int = 0, end: int | None = None) -> TableChanges:
        last = None if end is None else CommitBoundary.at_version(end)
        table = Table.for_path(self.engine, self.path)
        return table.changes(self.engine, CommitBoundary.at_version(start), last)

    def rows(
        self, start: int = 0, end: int | None = None, filter: str | None = None
    ) -> list[dict[str, Any]]:
        """All rows that the files of the range give; the remaining filter isn't applied."""
        scan = self.changes(start, end).scan_builder().with_filter(filter).build()
        state = scan.change_state(self.engine)
        batches = [
            batch
            for file in scan.change_files(self.engine)
            for batch in read_change_file(self.engine, state, file)
        ]
        return pa.Table.from_batches(batches, state.logical_arrow_schema).to_pylist()

    def told(self, start: int = 0, end: int | None = None) -> list[tuple[Any, ...]]:
        """(id, change type, version) of each row, in the order given."""
        return [(r["id"], r["_change_type"], r["_commit_version"]) for r in self.rows(start, end)]


@pytest.fixture
def feed(log: LogWriter) -> FeedTable:
    return FeedTable(log)
