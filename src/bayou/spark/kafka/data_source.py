"""The data source `bayou-kafka`: columns and options of Spark's own Kafka source, without a JAR."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from bayou.spark.kafka.batch_read import KafkaBatchReader
from bayou.spark.kafka.client import require_confluent_kafka
from bayou.spark.kafka.columns import arrow_schema, record_schema
from bayou.spark.kafka.options import parse_options
from bayou.spark.kafka.stream_read import KafkaStreamReader
from bayou.spark.streaming.read_limits import HAS_LIMITS, NoStreams


class KafkaDataSource(DataSource):
    """Reads Kafka topics, batch and streaming.

    Columns `key`, `value`, `topic`, `partition`, `offset`, `timestamp`, `timestampType`, and
    `headers` with `includeHeaders`; a schema given to `.schema(...)` may name some of them, and
    only those are read.
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
            return NoStreams()
        return KafkaStreamReader(parse_options(self.options), arrow_schema(schema))
