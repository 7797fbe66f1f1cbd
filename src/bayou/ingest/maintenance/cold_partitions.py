"""Finds the partitions of a table that have small files to compact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.kernel import Predicate, col, lit
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.model import And, Comparison, IsNull
from bayou.protocol import partition_values


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFiles:
    """A table partition with small files.

    Attributes:
        where: predicate that selects the partition; None for a table without partition columns.
        files: number of small files.
        newest: modification time of the partition's newest file, ms since the epoch.
    """

    where: Predicate | None
    files: int
    newest: int


def partitions_with_small_files(
    snapshot: SnapshotHandle, *, small: int, written_since: int = 0
) -> list[SmallFiles]:
    """Return the partitions with at least two small files, the least recently written first.

    Args:
        small: a file is small if it has fewer bytes than this.
        written_since: only return partitions with a file that was written at or after this time, in
            ms since the epoch.
    """
    files = snapshot.files()
    values = files.column("partition_values").combine_chunks()
    schema = snapshot.schema
    names = list(snapshot.partition_columns)
    fields = [next(f for f in schema if f.name == n) for n in names]
    physical = [str(f.metadata.get(_PHYSICAL_NAME, f.name)) for f in fields]
    columns = {
        f"p{i}": pc.map_lookup(values, pa.scalar(name), "first") for i, name in enumerate(physical)
    }
    rows = pa.table(
        {
            **columns,
            "small": pc.less(files.column("size"), small).cast(pa.int64()),
            "newest": files.column("modification_time"),
        }
    )
    grouped = rows.group_by(list(columns)).aggregate([("small", "sum"), ("newest", "max")])
    condition = pc.and_(
        pc.greater_equal(grouped.column("small_sum"), 2),
        pc.greater_equal(grouped.column("newest_max"), written_since),
    )
    partitions = grouped.filter(condition).sort_by("newest_max").to_pylist()
    return [
        SmallFiles(
            where=_partition(
                [
                    (f.name, partition_values.parse(row[f"p{i}"], f.data_type))
                    for i, f in enumerate(fields)
                ]
            ),
            files=row["small_sum"],
            newest=row["newest_max"],
        )
        for row in partitions
    ]


_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def _partition(values: list[tuple[str, Any]]) -> Predicate | None:
    parts: list[Predicate] = [
        IsNull(col(name)) if value is None else Comparison("=", col(name), lit(value))
        for name, value in values
    ]
    if len(parts) < 2:
        return parts[0] if parts else None
    return And(tuple(parts))
