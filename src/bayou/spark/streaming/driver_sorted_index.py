"""Sorted files that another process makes for a stream: the driver, whose executors sort faster.

The stream asks by a file `wanted` in a folder named after table and version, in the folder that
both processes share.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bayou.spark.streaming.driver_folder import ask
from bayou.spark.streaming.sorted_files import SortedFiles

__all__ = ["WANTED", "IndexRequest", "handed_index", "requests"]

WANTED = "wanted"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """A version of a table whose files somebody wants sorted, and where."""

    table_id: str
    version: int
    folder: Path

    @classmethod
    def of(cls, shared: Path, table_id: str, version: int) -> IndexRequest:
        """The request of a stream."""
        return cls(table_id=table_id, version=version, folder=shared / f"{version:020d}-{table_id}")


def handed_index(shared: Path | None, table_id: str, version: int) -> SortedFiles | None:
    """The sorted files of a version, made by the driver's process; None where it doesn't.

    Args:
        shared: the folder of both processes, None for none.
    """
    if shared is None:
        return None
    folder = IndexRequest.of(shared, table_id, version).folder.name
    return ask(shared, folder, WANTED, SortedFiles.open)


def requests(shared: Path) -> list[IndexRequest]:
    """What streams ask for in a folder."""
    found = []
    for wanted in shared.glob(f"*/{WANTED}"):
        version, _, table_id = wanted.parent.name.partition("-")
        found.append(IndexRequest(table_id=table_id, version=int(version), folder=wanted.parent))
    return found
