"""Spark's `FileIndex` in Python, and the DataFrame that scans its files.

Catalyst calls the index when it plans a query, and passes the query's filters. Spark doesn't apply
filters on partition columns to the rows, so this module applies these filters exactly. All other
filters are used only to skip files, because Spark applies them to the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from bayou.spark.errors import readable_errors
from bayou.spark.jvm.expressions import CatalystFilter
from bayou.spark.jvm.java_files import JavaFiles, hadoop_uris
from bayou.spark.jvm.objects import JavaObject, java_class, scala_items, scala_seq, tested_with

__all__ = ["FileIndex", "FilesByPartition", "SqlConf", "file_index_frame", "sql_conf"]


_STATUS_COLUMNS = ["path", "size", "modification_time"]


class SqlConf(NamedTuple):
    """Settings that determine how Catalyst formats expressions as SQL."""

    time_zone: str
    ansi: bool


class FilesByPartition(Protocol):
    """Groups of the files in a batch that `FileIndex.files` returns.

    All files of a group have the same partition values.

    Attributes:
        values: the partition values of each group.
        order: the row indexes of all files in the batch, sorted by group.
        offsets: the start of each group in `order`, followed by the end of the last group; int32.
    """

    @property
    def values(self) -> pa.Table: ...

    @property
    def order(self) -> pa.Array[Any]: ...

    @property
    def offsets(self) -> pa.Array[Any]: ...

    def only(self, groups: pa.Array[Any]) -> FilesByPartition:
        """Return only the files of some groups.

        The result's `values` still contains the partition values of all groups.

        Args:
            groups: the indexes of the groups, in ascending order.
        """


class FileIndex(Protocol):
    """The files of one version of a table.

    The methods must be thread-safe, because any thread of the JVM can call them.

    Attributes:
        root: URI of the table's folder.
        description: string that identifies the table and the version. If two indexes have the same
            description, Spark shares cached data between them.
    """

    root: str
    partition_schema: StructType
    description: str

    @property
    def size(self) -> int:
        """Total size of all files, in bytes."""

    def files(
        self, filters: Sequence[CatalystFilter], conf: SqlConf
    ) -> tuple[pa.RecordBatch, FilesByPartition]:
        """Return the files that can contain a row for which all filters are true.

        The result may also contain other files. The caller applies the filters on partition columns
        again, and Spark applies all other filters to the rows.

        Returns:
            A batch with the columns `path`, `size` and `modification_time`, and the groups of its
            files.
        """


@tested_with("4.2", "4.3")
def sql_conf(spark: Any) -> SqlConf:
    """Return the settings of the session that is active in the JVM's current thread."""
    conf = java_class(spark._jvm, "org.apache.spark.sql.internal.SQLConf").get()
    return SqlConf(str(conf.sessionLocalTimeZone()), bool(conf.ansiEnabled()))


@tested_with("4.2", "4.3")
def file_index_frame(
    spark: Any, index: FileIndex, schema: StructType, options: Mapping[str, str]
) -> DataFrame:
    """Return a DataFrame that reads the Parquet files of an index with Spark's own scan.

    Args:
        schema: the columns of the files, and the partition columns.
        options: options of the scan.
    """
    jvm, session = spark._jvm, spark._jsparkSession
    start_callbacks: Any = ensure_callback_server_started  # has no type annotations
    start_callbacks(spark.sparkContext._gateway)
    sources = "org.apache.spark.sql.execution.datasources"
    java_index = _JavaFileIndex(spark, index)
    relation = java_class(jvm, f"{sources}.HadoopFsRelation")(
        java_index,
        java_index.partitionSchema(),
        _java_schema(jvm, schema),
        java_class(jvm, "scala.Option").empty(),
        java_class(jvm, f"{sources}.parquet.ParquetFileFormat")(),
        java_class(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap(dict(options)),
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


class _JavaFileIndex:
    """Implementation of Spark's Java interface `FileIndex` that wraps a Python `FileIndex`.

    Spark calls the methods through py4j.
    """

    def __init__(self, spark: Any, index: FileIndex) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._java = JavaFiles(spark)
        self._index = index
        self._partition_schema = _java_schema(self._jvm, index.partition_schema)
        root = java_class(self._jvm, "org.apache.hadoop.fs.Path")(index.root)
        # The root path is listed twice, because Spark refuses to write to a relation with two
        # paths. With one path, an INSERT into a view of the DataFrame would write files that aren't
        # in the log, or delete the table's folder.
        self._root_paths = scala_seq(self._jvm, [root, root])
        self._none = java_class(self._jvm, "scala.Option").empty()

    def rootPaths(self) -> JavaObject:  # noqa: N802  # Spark's names, here and below
        return self._root_paths

    def partitionSchema(self) -> JavaObject:  # noqa: N802
        return self._partition_schema

    def listFiles(  # noqa: N802
        self, partition_filters: JavaObject, data_filters: JavaObject
    ) -> JavaObject:
        with readable_errors():
            conditions = scala_items(partition_filters)
            conf = sql_conf(self._spark)
            filters = CatalystFilter.all_of([*conditions, *scala_items(data_filters)])
            if conf != sql_conf(self._spark):
                filters = []  # another session has become active in this thread of the JVM
            files, groups = self._index.files(filters, conf)
            if files.num_rows == 0:
                return scala_seq(self._jvm, [])
            rows = self._java.rows(groups.values, self._index.partition_schema)
            if conditions:
                matches = self._java.matching(rows, self._predicate(conditions))
                if len(matches) == 0:
                    return scala_seq(self._jvm, [])
                groups, rows = groups.only(matches), self._java.take(rows, matches)
            statuses = self._statuses(files.select(_STATUS_COLUMNS).take(groups.order))
            return self._java.directories(rows, statuses, groups.offsets)

    def inputFiles(self) -> JavaObject:  # noqa: N802
        with readable_errors():
            files, _ = self._index.files([], sql_conf(self._spark))
            return self._java.uris(self._statuses(files))

    def refresh(self) -> None:
        """Do nothing, because a version doesn't change."""

    def isTimeTravel(self) -> bool:  # noqa: N802
        """Return False, the default of Spark's interface. Spark 4.3 and later call this method."""
        return False

    def sizeInBytes(self) -> int:  # noqa: N802
        with readable_errors():
            return self._index.size

    def metadataOpsTimeNs(self) -> JavaObject:  # noqa: N802
        return self._none

    def toString(self) -> str:  # noqa: N802
        return self._index.description

    def hashCode(self) -> int:  # noqa: N802
        return hash(self._index.description) & 0x7FFFFFFF

    def equals(self, other: JavaObject) -> bool:
        return other is not None and str(other.toString()) == self._index.description

    def _statuses(self, files: pa.RecordBatch) -> JavaObject:
        return self._java.statuses(
            hadoop_uris(files.column("path")),
            files.column("size"),
            files.column("modification_time"),
        )

    def _predicate(self, conditions: Sequence[JavaObject]) -> JavaObject:
        """Return a Catalyst predicate over partition columns: the AND of the conditions."""
        catalyst = "org.apache.spark.sql.catalyst.expressions"
        conjunction = java_class(self._jvm, f"{catalyst}.And")
        condition = conditions[0]
        for other in conditions[1:]:
            condition = conjunction(condition, other)
        references = scala_items(condition.references().toSeq())
        attributes = {str(a.name()): a for a in references}
        types = java_class(self._jvm, "org.apache.spark.sql.catalyst.types.DataTypeUtils")
        fields = scala_items(types.toAttributes(self._partition_schema))
        inputs = scala_seq(self._jvm, [attributes.get(str(f.name()), f) for f in fields])
        return java_class(self._jvm, f"{catalyst}.Predicate").create(condition, inputs)

    class Java:  # py4j's declaration of the interfaces
        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)


def _java_schema(jvm: JavaObject, schema: StructType) -> JavaObject:
    return java_class(jvm, "org.apache.spark.sql.types.DataType").fromJson(schema.json())
