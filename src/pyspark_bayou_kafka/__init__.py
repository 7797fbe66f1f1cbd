"""Registers the format `bayou-kafka`.

Spark looks for `DefaultSource` in modules named `pyspark_*`.
"""

from bayou.spark.kafka import KafkaDataSource

__all__ = ["DefaultSource"]


class DefaultSource(KafkaDataSource):
    """The data source for the format `bayou-kafka`. Spark requires this class name."""
