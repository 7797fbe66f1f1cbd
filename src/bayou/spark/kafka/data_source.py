"""The data source `bayou-kafka`, with the columns and options of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from bayou.errors import ArgumentError
from bayou.spark.kafka.client import require_confluent_kafka
from bayou.spark.kafka.cluster import KafkaCluster
from bayou.spark.kafka.columns import arrow_schema, record_schema
from bayou.spark.kafka.consumer import read_range
from bayou.spark.kafka.data_loss import DataLoss
from bayou.spark.kafka.offsets import OffsetRange
from bayou.spark.kafka.options import KafkaSourceOptions, parse_options
from bayou.spark.kafka.planning import (
    KafkaInputPartition,
    check_starts,
    input_partitions,
    resolve_position,
    selected_partitions,
)
from bayou.spark.kafka.stream_read import KafkaStreamReader
from bayou.spark.streaming.read_limits import HAS_LIMITS, UnsupportedStreamReader


class KafkaBatchReader(DataSourceReader):
    """Plans and reads a batch query. The plan has an offset range for each partition."""

    def __init__(self, options: KafkaSourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._start, self._end = options.batch_range()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        cluster = KafkaCluster(options.properties, options.planning_timeout)
        partitions = selected_partitions(cluster, options)
        start = resolve_position(self._start, partitions, cluster, options, "startingOffsets")
        end = resolve_position(self._end, partitions, cluster, options, "endingOffsets")
        ranges = []
        for partition in partitions:
            if start[partition] > end[partition]:
                raise ArgumentError(
                    f"Option startingOffsets of {partition} ({start[partition]}) is after "
                    f"endingOffsets ({end[partition]}). Set endingOffsets to a later offset.",
                    argument="endingOffsets",
                )
            ranges.append(OffsetRange(partition, start[partition], end[partition]))
        checked = check_starts(ranges, cluster, DataLoss(options.fail_on_data_loss))
        return input_partitions(checked, options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark creates a partition if the read has none.
        if isinstance(partition, KafkaInputPartition):
            yield from read_range(partition.offsets, self._options, self._schema)


class KafkaDataSource(DataSource):
    """The data source `bayou-kafka`: batch and streaming reads of Kafka topics.

    The columns are `key`, `value`, `topic`, `partition`, `offset`, `timestamp` and `timestampType`.
    The option `includeHeaders` adds the column `headers`. `.schema(...)` selects some of the
    columns.
    """

    @classmethod
    def name(cls) -> str:
        return "bayou-kafka"

    def schema(self) -> StructType:
        return record_schema(parse_options(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        require_confluent_kafka()
        return KafkaBatchReader(parse_options(self.options), arrow_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        require_confluent_kafka()
        if not HAS_LIMITS:
            return UnsupportedStreamReader()
        return KafkaStreamReader(parse_options(self.options), arrow_schema(schema))
