"""`DeltaFileIndex`: Spark's `FileIndex` in Python, which Catalyst calls when it plans a query.

The index must apply filters on partition columns exactly, because Spark doesn't apply them again.
Spark applies all other filters to the rows, so the index uses them only for data skipping.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.errors import ArgumentError
from bayou.kernel import Predicate
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.kernel.scan.data_files import DataFiles
from bayou.spark.errors import readable_errors
from bayou.spark.expressions.session_semantics import is_utc
from bayou.spark.jvm.classes import java_class, scala_items
from bayou.spark.native_read.file_listing import Listing, grouped
from bayou.spark.native_read.filters import CatalystFilter, to_predicate
from bayou.spark.native_read.java_files import JavaFiles, hadoop_uris

__all__ = ["DeltaFileIndex"]


class DeltaFileIndex:
    """The file index of a version. py4j calls it from any thread of the JVM.

    Args:
        spark: the session of the DataFrame.
        listing: the files.
        partition_schema: Spark's schema of the partition columns, with the relation's names. With
            deletion vectors, its last column is the number of a file.
        unusable: columns whose filters the kernel must not use.
    """

    def __init__(
        self,
        spark: Any,
        listing: Listing,
        partition_schema: Any,
        *,
        unusable: frozenset[str] = frozenset(),
    ) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm  # noqa: SLF001  # no public API
        self._java = JavaFiles(spark)
        self._listing = listing
        self._partition_schema = partition_schema
        self._unusable = unusable
        self._ansi_at_load = self._sql_conf()[1]
        schema = java_class(self._jvm, "org.apache.spark.sql.types.DataType").fromJson(
            partition_schema.json()
        )
        self._java_partition_schema = schema
        root = hadoop_uris(pa.array([listing.snapshot.path]))[0].as_py()
        paths = [java_class(self._jvm, "org.apache.hadoop.fs.Path")(root)]
        self._root_paths = java_class(self._jvm, "org.apache.spark.api.python.PythonUtils").toSeq(
            paths
        )
        self._none = java_class(self._jvm, "scala.Option").empty()
        snapshot = listing.snapshot
        self._description = (
            f"Bayou[{root}, version {snapshot.version} of table {snapshot.table_id}, "
            f"{listing.time_zone}]"
        )

    def rootPaths(self) -> Any:  # noqa: N802  # Spark's names, here and below
        return self._root_paths

    def partitionSchema(self) -> Any:  # noqa: N802
        return self._java_partition_schema

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:  # noqa: N802
        with readable_errors():
            conditions = self._expressions(partition_filters)
            predicate = self._predicate(conditions + self._expressions(data_filters))
            return self._directories(self._listing.files(predicate), conditions)

    def inputFiles(self) -> Any:  # noqa: N802
        with readable_errors():
            files = self._listing.files(None).files
            statuses = self._java.statuses(
                hadoop_uris(files.column("path")),
                files.column("size"),
                files.column("modification_time"),
            )
            return self._java.uris(statuses)

    def refresh(self) -> None:
        """Do nothing: a version doesn't change."""

    def sizeInBytes(self) -> int:  # noqa: N802
        with readable_errors():
            return self._listing.size

    def metadataOpsTimeNs(self) -> Any:  # noqa: N802
        return self._none

    def toString(self) -> str:  # noqa: N802
        return self._description

    def hashCode(self) -> int:  # noqa: N802
        return hash(self._description) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Whether another index has the same files, so that DataFrames share cached data."""
        return other is not None and str(other.toString()) == self._description

    def _expressions(self, expressions: Any) -> list[Any]:
        return scala_items(self._jvm, expressions)

    def _predicate(self, expressions: list[Any]) -> Predicate | None:
        conf = self._sql_conf()
        filters = [CatalystFilter.of(self._jvm, e) for e in expressions]
        if conf != self._sql_conf():
            return None  # this thread of the JVM has switched to another session
        zone, ansi = conf
        return to_predicate(
            filters,
            self._listing.snapshot.schema,
            time_zone=_kernel_zone(zone),
            ansi=ansi and self._ansi_at_load,
            unusable=self._unusable,
        )

    def _sql_conf(self) -> tuple[str, bool]:
        """The time zone and ANSI mode with which Catalyst formats expressions in this thread.

        They can differ from those at `load()`, and a query can run in another session.
        """
        conf = java_class(self._jvm, "org.apache.spark.sql.internal.SQLConf").get()
        return str(conf.sessionLocalTimeZone()), bool(conf.ansiEnabled())

    def _directories(self, data_files: DataFiles, conditions: list[Any]) -> Any:
        files, java = data_files.files, self._java
        names = self._partition_schema.names
        columns: dict[str, Any] = dict(
            zip(names, data_files.partition_values.columns, strict=False)
        )
        numbers = self._listing.numbers(files)
        if numbers is not None:
            columns[names[-1]] = numbers
        groups = grouped(pa.table(columns), len(data_files))
        if len(data_files) == 0:
            return java_class(self._jvm, "org.apache.spark.api.python.PythonUtils").toSeq([])
        if columns:
            rows = java.rows(groups.values, self._partition_schema)
        else:
            rows = java.empty_row()
        if conditions:
            matches = java.matching(
                rows, groups.values.num_rows or 1, self._partition_predicate(conditions)
            )
            if len(matches) == 0:
                return java_class(self._jvm, "org.apache.spark.api.python.PythonUtils").toSeq([])
            groups, rows = groups.only(matches), java.take(rows, matches)
        files = files.take(groups.order)
        statuses = java.statuses(
            hadoop_uris(files.column("path")),
            files.column("size"),
            files.column("modification_time"),
        )
        return java.directories(rows, statuses, groups.offsets)

    def _partition_predicate(self, conditions: list[Any]) -> Any:
        """A Catalyst predicate over rows of the partition columns: all conditions with AND."""
        catalyst = "org.apache.spark.sql.catalyst.expressions"
        conjunction = java_class(self._jvm, f"{catalyst}.And")
        condition = conditions[0]
        for other in conditions[1:]:
            condition = conjunction(condition, other)
        references = condition.references().toSeq()
        attributes = {str(a.name()): a for a in scala_items(self._jvm, references)}
        fields = scala_items(
            self._jvm,
            java_class(self._jvm, "org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(
                self._java_partition_schema
            ),
        )
        inputs = [attributes.get(str(f.name()), f) for f in fields]
        return java_class(self._jvm, f"{catalyst}.Predicate").create(
            condition,
            java_class(self._jvm, "org.apache.spark.api.python.PythonUtils").toSeq(inputs),
        )

    class Java:  # noqa: D106  # py4j's declaration of the interfaces
        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)


def _kernel_zone(name: str) -> str:
    """The kernel's name of a session time zone; unchanged if the kernel doesn't support it."""
    if is_utc(name):
        return "UTC"
    try:
        return normalize_time_zone(name)
    except ArgumentError:
        return name  # then filters with timestamps aren't used
