"""The Python data source of the format `delta`."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType as SparkStructType

from bayou.errors import ArgumentError
from bayou.protocol.schema import StructType
from bayou.spark.errors import readable_errors
from bayou.spark.read.batch import DeltaReader
from bayou.spark.read.change_data_feed import DeltaChangesReader, changes_schema, has_end
from bayou.spark.read.metadata_column import metadata_field, wants_metadata
from bayou.spark.read.options import PinnedVersion, SourceOptions, open_pinned
from bayou.spark.read.stream import DeltaStreamReader, source_schema
from bayou.spark.streaming import reads_change_feed
from bayou.spark.streaming.read_limits import HAS_LIMITS, UnsupportedStreamReader
from bayou.spark.types import to_spark
from bayou.spark.write import WriteOptions
from bayou.spark.write.data_source_writers import DeltaStreamWriter, DeltaWriter

_PARTIAL_READS = ("filter", "versionasof", "timestampasof", "readchangefeed", "readchangedata")
"""Read options, in lower case, that select some of a table's rows, or an earlier version.

A write with one of these options is an error. If an INSERT writes to a view that was read with such
an option, Spark passes the option to the writer. INSERT OVERWRITE would then delete rows that the
view doesn't show.
"""


class DeltaDataSource(DataSource):
    """Reads and writes Delta tables by path.

    Spark calls `schema` in one process. For each query, Spark then calls `reader` in another
    process, on a pickled copy of this object. All copies read the version that `schema` has read.
    """

    _pinned: PinnedVersion | None = None

    @classmethod
    def name(cls) -> str:
        return "delta"

    def schema(self) -> SparkStructType:
        with readable_errors():
            options_lower = {key.lower(): value for key, value in self.options.items()}
            options = SourceOptions.parse(options_lower)
            engine, snapshot = open_pinned(options, None)
            self._pinned = PinnedVersion(version=snapshot.version, table_id=snapshot.table_id)
            if reads_change_feed(options_lower) and has_end(options_lower):
                return to_spark(changes_schema(engine, options, options_lower))
            schema = source_schema(engine, snapshot, self.options)
            if wants_metadata(options_lower):
                schema = StructType((*schema.fields, metadata_field(snapshot)))
            return to_spark(schema)

    def reader(self, schema: SparkStructType) -> DataSourceReader:
        with readable_errors():
            options_lower = {key.lower(): value for key, value in self.options.items()}
            if reads_change_feed(options_lower):
                return DeltaChangesReader(SourceOptions.parse(options_lower), options_lower, schema)
            return DeltaReader(SourceOptions.parse(options_lower), schema, self._pinned)

    def writer(self, schema: SparkStructType, overwrite: bool) -> DataSourceWriter:
        with readable_errors():
            for name in self.options:
                if name.lower() in _PARTIAL_READS:
                    raise ArgumentError(
                        f"{name}: this option is only for reads, but the INSERT targets a view or "
                        "DataFrame that was loaded with the option. Insert into the table itself.",
                        argument=name,
                    )
            return DeltaWriter(WriteOptions.parse(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: SparkStructType) -> DataSourceStreamReader:  # noqa: N802
        with readable_errors():
            if not HAS_LIMITS:
                return UnsupportedStreamReader()
            return DeltaStreamReader(dict(self.options), schema, self._pinned)

    def streamWriter(  # noqa: N802  # Spark's name
        self, schema: SparkStructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        with readable_errors():
            return DeltaStreamWriter(WriteOptions.parse(self.options), schema, overwrite=overwrite)
