"""Limits of a stream's batches, as Spark's Python data sources have them since 4.2.

An older PySpark reads and writes tables all the same; its streams from Python sources know no
limits, and are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bayou.errors import PrerequisiteError

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
