"""The format `delta`: what Spark asks of it, and who answers."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from bayou.errors import ArgumentError
from bayou.spark.errors import readable_errors
from bayou.spark.source.batch_read import DeltaReader
from bayou.spark.source.batch_write import DeltaWriter
from bayou.spark.source.options import SourceOptions
from bayou.spark.source.snapshots import PinnedVersion, open_pinned
from bayou.spark.source.stream_read import DeltaStreamReader, source_schema
from bayou.spark.source.stream_write import DeltaStreamWriter
from bayou.spark.streaming import reads_change_feed
from bayou.spark.types import to_spark
from bayou.spark.writing import WriteOptions

__all__ = ["DeltaDataSource"]


class DeltaDataSource(DataSource):
    """Delta tables by path.

    Spark pickles it after `schema()` and calls `reader` on the copy, in another process and once
    for every query; the pinned version goes along.
    """

    _pinned: PinnedVersion | None = None

    @classmethod
    def name(cls) -> str:
        return "delta"

    def schema(self) -> StructType:
        with readable_errors():
            engine, snapshot = open_pinned(SourceOptions.parse(self.options), None)
            self._pinned = PinnedVersion(version=snapshot.version, table_id=snapshot.table_id)
            return to_spark(source_schema(engine, snapshot, self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        with readable_errors():
            if reads_change_feed({k.lower(): v for k, v in self.options.items()}):
                raise ArgumentError(
                    "The option readChangeFeed is for streams (spark.readStream) in this version "
                    "of Bayou; bayou.table(path).changes(...) reads the changes of a range.",
                    argument="readChangeFeed",
                )
            return DeltaReader(SourceOptions.parse(self.options), schema, self._pinned)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with readable_errors():
            return DeltaWriter(WriteOptions.parse(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        with readable_errors():
            return DeltaStreamReader(dict(self.options), schema, self._pinned)

    def streamWriter(  # noqa: N802  # Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        with readable_errors():
            return DeltaStreamWriter(WriteOptions.parse(self.options), schema, overwrite=overwrite)
