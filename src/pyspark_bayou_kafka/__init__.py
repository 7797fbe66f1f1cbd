"""Spark finds `DefaultSource` by this module's name, so `format("bayou-kafka")` just works."""

from bayou.spark.kafka import KafkaDataSource

__all__ = ["DefaultSource"]


class DefaultSource(KafkaDataSource):
    """The Kafka source; the name of the class is Spark's convention."""
