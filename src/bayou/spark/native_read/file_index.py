"""`DeltaFileIndex`: the files of a version, for Spark's `FileIndex`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from bayou.errors import ArgumentError
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.spark.expressions.catalyst_filters import to_predicate
from bayou.spark.expressions.session_semantics import is_utc
from bayou.spark.jvm.expressions import CatalystFilter
from bayou.spark.jvm.file_index import SqlConf
from bayou.spark.jvm.java_files import hadoop_uris
from bayou.spark.native_read.file_listing import FileGroups, FileListing, grouped


class DeltaFileIndex:
    """The files of a version, as a `FileIndex` (see `jvm.file_index`).

    Args:
        partition_schema: Spark's schema of the partition columns, with physical names. If the
            table has deletion vectors, the last column is the file's number.
        conf: the session's settings at `load()`. A query can run with other settings.
        ignored_columns: physical names of columns whose filters aren't used to skip files.
    """

    def __init__(
        self,
        listing: FileListing,
        partition_schema: StructType,
        conf: SqlConf,
        *,
        ignored_columns: frozenset[str] = frozenset(),
    ) -> None:
        snapshot = listing.snapshot
        self._listing = listing
        self._conf = conf
        self._ignored_columns = ignored_columns
        self.root: str = hadoop_uris(pa.array([snapshot.path]))[0].as_py()
        self.partition_schema = partition_schema
        self.description = (
            f"Bayou[{self.root}, version {snapshot.version} of table {snapshot.table_id}, "
            f"{listing.time_zone}]"
        )

    @property
    def size(self) -> int:
        return self._listing.size

    def files(
        self, filters: Sequence[CatalystFilter], conf: SqlConf
    ) -> tuple[pa.RecordBatch, FileGroups]:
        predicate = to_predicate(
            filters,
            self._listing.snapshot.schema,
            time_zone=_kernel_zone(conf.time_zone),
            ansi=conf.ansi and self._conf.ansi,
            ignored_columns=self._ignored_columns,
        )
        data_files = self._listing.files(predicate)
        names = self.partition_schema.names
        columns: dict[str, Any] = dict(
            zip(names, data_files.partition_values.columns, strict=False)
        )
        numbers = self._listing.numbers(data_files.files)
        if numbers is not None:
            columns[names[-1]] = numbers
        return data_files.files, grouped(pa.table(columns), len(data_files))


def _kernel_zone(name: str) -> str:
    """Return the kernel's name of a session's time zone; `name` if the kernel doesn't know it."""
    if is_utc(name):
        return "UTC"
    try:
        return normalize_time_zone(name)
    except ArgumentError:
        return name  # filters with timestamps will be ignored
