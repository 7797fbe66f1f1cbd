"""Reports whether a path is a Delta table, and its contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayou.api import TableHandle
from bayou.api.arrow_stream import python_rows
from bayou.errors import BayouError

__all__ = ["TableReport", "table_report"]

_SAMPLE = 5
_COMMITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """The report of a table, or the error of reading it.

    Attributes:
        path: the path of the table.
        error: the error, after which the other attributes are empty. `TableNotFoundError` if the
            path isn't a Delta table.
        version: the latest version.
        rows, files, bytes: size of the latest version.
        schema: types by column.
        partition_columns: the partition columns in order.
        sample: five rows.
        history: the newest ten commits.
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


def table_report(path: str, table: TableHandle) -> TableReport:
    """Read a table's log, the row count of every file, and five rows.

    Args:
        path: the path as the user wrote it.
        table: the table's handle.
    """
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
        )
    except BayouError as error:
        return TableReport(path=path, error=error, schema={})
