"""Read limits of micro-batches: PySpark's classes, and `RemainingLimits` for files.

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
    """A stream reader that raises an error when the query starts, because PySpark is too old.

    If the error were raised when the reader is created, PySpark 4.1 wouldn't show it.
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

    Files are admitted to the batch until a limit is reached. The last file can exceed the byte
    limit, so that each batch has at least one file. Files that must be in the same batch are
    admitted if all of them fit, or if they are the first files of the batch.

    Args:
        files: maximum number of files; None for no limit.
        size: maximum size in bytes; None for no limit.
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
        """Record that the batch includes the start of a commit, also if the commit has no files.

        Afterwards, `admit_together` admits files only if all of them fit.
        """
        self._started = True

    def admit(self, sizes: pa.Array[Any]) -> int:
        """Admit files of these sizes in bytes, in order; return the number of admitted files."""
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
        """Admit either all of `count` files with `size` bytes in total, or none of them.

        Returns whether the files are admitted. If not, the batch is full.
        """
        if count == 0:
            return True
        fits = not self._started or (self._files >= count and self._size >= size)
        self._started = True
        self._files -= count
        self._size -= size
        return fits
