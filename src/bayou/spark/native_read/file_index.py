"""Spark's `FileIndex` in Python: Catalyst asks it for files when it plans, with its own filters.

What Spark does with the answer: filters of partition columns alone are ours to apply, exactly,
since it doesn't apply them again; all others it applies to the rows.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import ArgumentError
from bayou.kernel import Predicate
from bayou.kernel.expressions.literals import checked_time_zone
from bayou.spark.errors import readable_errors
from bayou.spark.expressions.session_semantics import is_utc
from bayou.spark.jvm.classes import java_class, scala_items
from bayou.spark.native_read.file_listing import Listing, grouped
from bayou.spark.native_read.filters import CatalystFilter, to_predicate
from bayou.spark.native_read.java_files import JavaFiles, hadoop_uris

__all__ = ["DeltaFileIndex"]

pc: Any = pyarrow.compute


class DeltaFileIndex:
    """One version of a table; py4j calls it from whatever thread of the JVM plans.

    Args:
        spark: the session of the DataFrame.
        listing: the files.
        partition_schema: Spark's schema of the partition columns, under the names that the relation
            has them by; with the number of a file's deletion vector last, where there are any.
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
        self._jvm: Any = spark._jvm  # noqa: SLF001  # the gateway is published nowhere
        self._java = JavaFiles(spark)
        self._listing = listing
        self._partition_schema = partition_schema
        self._unusable = unusable
        self._ansi_at_load = self._writing_rules()[1]
        schema = java_class(self._jvm, "org.apache.spark.sql.types.DataType").fromJson(
            partition_schema.json()
        )
        self._java_partition_schema = schema
        root = hadoop_uris(pa.array([listing.snapshot.path]))[0].as_py()
        paths = [java_class(self._jvm, "org.apache.hadoop.fs.Path")(root)]
        self._root_paths = java_class(self._jvm, "org.apache.spark.api.python.PythonUtils").toSeq(
            paths
        )
        self._no_time = java_class(self._jvm, "scala.Option").empty()
        snapshot = listing.snapshot
        self._text = (
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
            found = self._listing.files(None)
            uris = hadoop_uris(found.files.column("path"))
            statuses = self._java.statuses(
                uris, found.files.column("size"), found.files.column("modification_time")
            )
            return self._java.uris(statuses)

    def refresh(self) -> None:
        """A version doesn't change."""

    def sizeInBytes(self) -> int:  # noqa: N802
        with readable_errors():
            return self._listing.size

    def metadataOpsTimeNs(self) -> Any:  # noqa: N802
        return self._no_time

    def toString(self) -> str:  # noqa: N802
        return self._text

    def hashCode(self) -> int:  # noqa: N802
        return hash(self._text) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Whether another reads the same files: DataFrames of one version share a cache."""
        return other is not None and str(other.toString()) == self._text

    def _expressions(self, expressions: Any) -> list[Any]:
        return scala_items(self._jvm, expressions)

    def _predicate(self, expressions: list[Any]) -> Predicate | None:
        rules = self._writing_rules()
        filters = [CatalystFilter.of(self._jvm, e) for e in expressions]
        if rules != self._writing_rules():
            return None  # another session used this thread of the JVM meanwhile
        zone, ansi = rules
        return to_predicate(
            filters,
            self._listing.snapshot.schema,
            time_zone=_known_zone(zone),
            ansi=ansi and self._ansi_at_load,
            unusable=self._unusable,
        )

    def _writing_rules(self) -> tuple[str, bool]:
        """Time zone and ANSI mode by which Catalyst writes expressions in this thread now.

        The session's may have changed since `load()`, and a query may run in another session.
        """
        conf = java_class(self._jvm, "org.apache.spark.sql.internal.SQLConf").get()
        return str(conf.sessionLocalTimeZone()), bool(conf.ansiEnabled())

    def _directories(self, found: Any, conditions: list[Any]) -> Any:
        files, java = found.files, self._java
        names = self._partition_schema.names
        columns = dict(zip(names, found.partitions.columns, strict=False))
        numbers = self._listing.numbers(files)
        if numbers is not None:
            columns[names[-1]] = numbers
        groups = grouped(pa.table(columns), len(found))
        if len(found) == 0:
            return java_class(self._jvm, "org.apache.spark.api.python.PythonUtils").toSeq([])
        if columns:
            rows = java.rows(groups.values, self._partition_schema)
        else:
            rows = java.empty_row()
        if conditions:
            kept = java.matching(rows, groups.values.num_rows or 1, self._test(conditions))
            if len(kept) == 0:
                return java_class(self._jvm, "org.apache.spark.api.python.PythonUtils").toSeq([])
            groups, rows = groups.only(kept), java.take(rows, kept)
        files = files.take(groups.order)
        statuses = java.statuses(
            hadoop_uris(files.column("path")),
            files.column("size"),
            files.column("modification_time"),
        )
        return java.directories(rows, statuses, groups.offsets)

    def _test(self, conditions: list[Any]) -> Any:
        """A Catalyst predicate over rows of the partition columns: all conditions at once."""
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

    class Java:  # noqa: D106  # what py4j looks for
        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)


def _known_zone(name: str) -> str:
    """A session's time zone, by the name that the kernel knows if it knows it."""
    if is_utc(name):
        return "UTC"
    try:
        return checked_time_zone(name)
    except ArgumentError:
        return name  # filters with timestamps aren't used
