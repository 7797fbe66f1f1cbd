"""Limits of a stream's batches, as Spark's Python data sources have them since 4.2.

An older PySpark reads and writes tables all the same; its streams from Python sources know no
limits, and are refused.

How much a micro-batch takes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bayou.errors import PrerequisiteError

__all__ = ["Admission"]


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

    class ReadLimit:  # type: ignore[no-redef]
        """Stands in where there are none."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """Stands in where there are none."""

    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef]
        """Stands in where there are none."""

    class ReadMaxFiles(ReadLimit):  # type: ignore[no-redef]
        """Stands in where there are none."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """Stands in where there are none."""

    class ReadMinRows(ReadLimit):  # type: ignore[no-redef]
        """Stands in where there are none."""

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in where there are none."""

else:
    HAS_LIMITS = True

__all__ = [
    "HAS_LIMITS",
    "NoStreams",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]


class NoStreams(DataSourceStreamReader):
    """Says that this PySpark is too old, as soon as the query begins.

    Not before: PySpark 4.1 loses what is raised while a reader is made.
    """

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  # Spark's name
        raise PrerequisiteError(
            f"This is PySpark {pyspark.__version__}, and streams need 4.2 or newer: pip install "
            "'pyspark>=4.2'. Tables are read and written in batches as they are.",
            what="pyspark",
        )

    def latestOffset(self, *limits: object) -> dict[str, str]:  # noqa: N802
        return self.initialOffset()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        return iter(())


pc: Any = pyarrow.compute

_NO_LIMIT = 2**62


class Admission:
    """Room for files and bytes in one micro-batch; it shrinks as files come in.

    A file comes in if there is room before it, so that one always does, and the last may overshoot.
    Files that belong together come in together: if all of them fit, or if they are the first.
    """

    def __init__(self, files: int | None, size: int | None) -> None:
        self._files = _NO_LIMIT if files is None else files
        self._size = _NO_LIMIT if size is None else size
        self._begun = False

    @property
    def has_room(self) -> bool:
        """Whether another file may come in."""
        return self._files > 0 and self._size > 0

    def begin(self) -> None:
        """A commit has been looked at: what comes after it isn't the first any more."""
        self._begun = True

    def admit(self, sizes: pa.Array[Any]) -> int:
        """How many of the next files, whose sizes these are, come in."""
        if len(sizes) == 0:
            return 0
        self._begun = True
        count = max(0, min(len(sizes), self._files))
        behind = pc.cumulative_sum(sizes.slice(0, count))
        if self._size < _NO_LIMIT and count:
            before = pc.subtract(behind, sizes.slice(0, count))
            count = pc.sum(pc.less(before, self._size)).as_py()
        if count:
            self._files -= count
            self._size -= behind[count - 1].as_py()
        return count

    def admit_together(self, count: int, size: int) -> bool:
        """Whether `count` places of `size` bytes in all come in; refused, there is no room left."""
        if count == 0:
            return True
        fits = not self._begun or (self._files >= count and self._size >= size)
        self._begun = True
        self._files -= count
        self._size -= size
        return fits
