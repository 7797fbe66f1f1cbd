"""Somebody else's listing of a table's folder, for VACUUM: a DataFrame.

Object stores write such inventories by themselves, and listing a hundred million files again takes
hours. The columns are delta-spark's: `path`, `length`, `isDir`, `modificationTime`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import functions

from bayou.errors import ArgumentError
from bayou.kernel.commands.vacuum.listing import ListingShare, look_through
from bayou.kernel.commands.vacuum.orphan_files import LISTING_SCHEMA, FoundFiles
from bayou.kernel.commands.vacuum.referenced_files import KeptFiles

__all__ = ["Inventory"]

_COLUMNS = {
    "path": "string",
    "length": "bigint",
    "isDir": "boolean",
    "modificationTime": "bigint",
}
_S3 = ("s3://", "s3a://", "s3n://")


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Files and folders that lie in a table's folder, and perhaps in others.

    Attributes:
        frame: with the columns `path` (fully qualified, as Hadoop spells it, not encoded),
            `length` (bytes), `isDir` and `modificationTime` (ms since the epoch).
        location: the table's path as its user spelled it.

    Raises:
        ArgumentError: a column is missing, or of another type.
    """

    frame: Any = field(repr=False)
    location: str

    def __post_init__(self) -> None:
        types = dict(self.frame.dtypes)
        if any(types.get(name) != kind for name, kind in _COLUMNS.items()):
            wanted = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
            given = ", ".join(f"{name} {kind}" for name, kind in types.items())
            raise ArgumentError(
                f"The inventory of {self.location} has the columns {given}; it must have {wanted} "
                "(DELTA_INVALID_INVENTORY_SCHEMA).",
                argument="inventory",
            )

    def look_through(self, whole: ListingShare, kept: KeptFiles) -> Iterable[FoundFiles]:
        """What nothing needs of it, found by executors; see `bayou.kernel`'s `ListShares`.

        Where a path stands twice, its newest row counts.
        """
        task = _LookThrough(share=whole, kept=kept, spellings=_spellings(whole.root, self.location))
        newest = (
            self.frame.select(*_COLUMNS)
            .groupBy("path")
            .agg(
                functions.max_by("length", "modificationTime").alias("size"),
                functions.max("modificationTime").alias("modification_time"),
                functions.max("isDir").alias("is_folder"),
            )
        )
        cells = newest.mapInArrow(task, "found binary").toArrow().column("found")
        return [pickle.loads(cell.as_py()) for cell in cells]  # noqa: S301  # our own tasks' bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookThrough:
    """A task: some of the inventory's rows."""

    share: ListingShare
    kept: KeptFiles
    spellings: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = look_through(
            self.share,
            self.kept,
            (batch.cast(LISTING_SCHEMA) for batch in batches),
            self.spellings,
        )
        yield pa.RecordBatch.from_pydict({"found": pa.array([pickle.dumps(found)], pa.binary())})


def _spellings(root: str, location: str) -> list[str]:
    """How else Hadoop and its users name a table's path."""
    if root.startswith("/"):
        return [f"file:{root}", f"file://{root}"]
    found = [location]
    if root.startswith(_S3):
        found += [scheme + root.partition("://")[2] for scheme in _S3]
    return found
