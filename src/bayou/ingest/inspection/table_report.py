"""Whether there is a Delta table at a path, and what it is."""

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
    """A table, or why there is none.

    Attributes:
        path: where it was looked for.
        error: why it can't be read; then nothing else is known. `TableNotFoundError`: it isn't a
            Delta table.
        version: the latest one.
        rows, files, bytes: of it.
        schema: column and type.
        partition_columns: in the order of the directories.
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
    """Look at a table: its log, every file's row count, and five rows.

    Args:
        path: how the user calls it.
        table: its handle.
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
