"""Read limits of micro-batches: PySpark's `ReadLimit` classes, and `RemainingLimits`.

Python data sources have read limits since Spark 4.2. With an older PySpark, streaming reads raise
an error; batch reads and writes work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bayou.errors import PrerequisiteError
from bayou.kernel.arrow.compute import pc

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ModuleNotFoundError:
    HAS_LIMITS = False

    class _Placeholder:
        """Replaces the classes of read limits, which PySpark lacks before version 4.2."""

    ReadAllAvailable = ReadLimit = ReadMaxBytes = ReadMaxFiles = _Placeholder  # type: ignore[misc, assignment]
    ReadMaxRows = ReadMinRows = SupportsTriggerAvailableNow = _Placeholder  # type: ignore[misc, assignment]

else:
    HAS_LIMITS = True

__all__ = [
    "HAS_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "ReadMaxRows",
    "ReadMinRows",
    "RemainingLimits",
    "SupportsTriggerAvailableNow",
    "UnsupportedStreamReader",
]


class UnsupportedStreamReader(DataSourceStreamReader):
    """A stream reader for PySpark before 4.2: it raises an error when the query starts.

    The error isn't raised earlier, because PySpark 4.1 doesn't show errors that are raised when the
    reader is created.
    """

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  # Spark's name
        raise PrerequisiteError(
            f"PySpark {pyspark.__version__}: streaming reads need version 4.2 or newer. Run pip "
            "install 'pyspark>=4.2'. Batch reads and writes work with this version.",
            what="pyspark",
        )

    def latestOffset(self, *limits: object) -> dict[str, str]:  # noqa: N802
        return self.initialOffset()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        return iter(())


_NO_LIMIT = 2**62


class RemainingLimits:
    """The number and total size of files that can still be added to a micro-batch.

    Single files are added until a limit is reached. The last added file can exceed the byte limit,
    so that each batch has at least one file. A group of files that must be in the same batch is
    added if the whole group fits. The first group of a batch is added even if it doesn't fit.

    Args:
        files: maximum number of files in the batch; None for no limit.
        size: maximum total size of the files in bytes; None for no limit.
    """

    def __init__(self, files: int | None, size: int | None) -> None:
        self._files = _NO_LIMIT if files is None else files
        self._size = _NO_LIMIT if size is None else size
        self._started = False

    @property
    def has_room(self) -> bool:
        """Whether another file can be added."""
        return self._files > 0 and self._size > 0

    def begin(self) -> None:
        """Record that the batch includes the start of a commit, and is therefore not empty.

        Afterwards, `admit_together` adds a group of files only if the whole group fits.
        """
        self._started = True

    def admit(self, sizes: pa.Array[Any]) -> int:
        """Add single files with these sizes in bytes, in order; return how many were added."""
        if len(sizes) == 0:
            return 0
        self._started = True
        count = max(0, min(len(sizes), self._files))
        totals = pc.cumulative_sum(sizes.slice(0, count))
        if self._size < _NO_LIMIT and count:
            before = pc.subtract(totals, sizes.slice(0, count))
            count = pc.sum(pc.less(before, self._size)).as_py()
        if count:
            self._files -= count
            self._size -= totals[count - 1].as_py()
        return count

    def admit_together(self, count: int, size: int) -> bool:
        """Add a group of files that must be in the same batch; return whether they are added.

        If the files aren't added, the batch is full.

        Args:
            count: number of files in the group.
            size: total size of the group in bytes.
        """
        if count == 0:
            return True
        fits = not self._started or (self._files >= count and self._size >= size)
        self._started = True
        self._files -= count
        self._size -= size
        return fits
