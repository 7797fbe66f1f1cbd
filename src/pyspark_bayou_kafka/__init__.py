"""Registers the format `bayou-kafka`: Spark finds `DefaultSource` by this module's name."""

from bayou.spark.kafka import KafkaDataSource

__all__ = ["DefaultSource"]


class DefaultSource(KafkaDataSource):
    """The data source for the format `bayou-kafka`; Spark requires the class name."""
