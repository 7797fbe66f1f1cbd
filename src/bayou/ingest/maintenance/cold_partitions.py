"""Which partitions of a table have small files to pack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.api import SnapshotHandle
from bayou.kernel import Predicate, col, lit
from bayou.kernel.expressions.model import And, Comparison, IsNull
from bayou.protocol import partition_values

__all__ = ["SmallFiles", "partitions_with_small_files"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFiles:
    """A partition whose files could be fewer.

    Attributes:
        where: the partition; None for the whole of a table without partitions.
        files: small files in it.
        newest: when the newest of its files was written, ms since the epoch.
    """

    where: Predicate | None
    files: int
    newest: int


def partitions_with_small_files(
    snapshot: SnapshotHandle, *, small: int, written_since: int = 0
) -> list[SmallFiles]:
    """Partitions with two small files or more, the longest untouched first.

    Args:
        small: bytes below which a file is small.
        written_since: only partitions with a file from this time on, ms since the epoch.
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
    chosen = pc.and_(
        pc.greater_equal(grouped.column("small_sum"), 2),
        pc.greater_equal(grouped.column("newest_max"), written_since),
    )
    found = grouped.filter(chosen).sort_by("newest_max").to_pylist()
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
        for row in found
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
