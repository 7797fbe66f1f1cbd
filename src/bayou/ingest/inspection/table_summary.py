"""Reads a summary of the table at a path, or the reason why it can't be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayou.api import TableHandle
from bayou.api.rows.arrow_stream import python_rows
from bayou.errors import BayouError
from bayou.ingest.inspection.unconditional_commits import unconditional_commits
from bayou.kernel.iceberg.comparison import IcebergStatus

_SAMPLE = 5
_COMMITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """The summary of a table, or the error that prevented reading the table.

    Attributes:
        error: the error that prevented reading the table; None if there was none.
            `TableNotFoundError` means that the path isn't a Delta table. With an error, only `path`
            and `error` are set.
        rows: number of rows in the latest version.
        files: number of data files in the latest version.
        bytes: total size of these files.
        schema: the type of each column, by the column's name.
        sample: up to five rows.
        history: the newest ten commits.
        unconditional_commits: for each `engineInfo` of an unsafe engine, the newest version that
            the engine has committed to the table. An engine is unsafe if it doesn't use
            put-if-absent on S3 by default.
        iceberg: the status of the table's Iceberg metadata; None if Iceberg metadata isn't enabled.
    """

    path: str
    error: BayouError | None = None
    version: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    schema: Mapping[str, str]
    partition_columns: tuple[str, ...] = ()
    sample: tuple[Mapping[str, Any], ...] = ()
    history: tuple[Mapping[str, Any], ...] = ()
    unconditional_commits: Mapping[str, int] = field(default_factory=dict)
    iceberg: IcebergStatus | None = None


def table_report(path: str, table: TableHandle) -> TableReport:
    """Read the log of a table, five of its rows, and the number of its rows."""
    try:
        snapshot = table.snapshot()
        detail = table.detail()
        return TableReport(
            path=path,
            version=snapshot.version,
            rows=sum(batch.num_rows for batch in snapshot.to_batches(columns=[])),
            files=detail.num_files,
            bytes=detail.size_in_bytes,
            schema={field.name: str(field.data_type) for field in snapshot.schema},
            partition_columns=tuple(snapshot.partition_columns),
            sample=tuple(python_rows(snapshot.to_arrow(limit=_SAMPLE))),
            history=tuple(table.history(_COMMITS)),
            unconditional_commits=unconditional_commits(snapshot, table.history),
            iceberg=table.iceberg.status(),
        )
    except BayouError as error:
        return TableReport(path=path, error=error, schema={})
