"""The data source `bayou-kafka`: Kafka topics as DataFrames, without a JAR.

Start at `data_source`. `planning` determines offset ranges, which `consumer` reads in tasks.
"""

from bayou.spark.kafka.cluster import KafkaCluster, topic_identity
from bayou.spark.kafka.data_loss import DATA_LOSS_ADVICE
from bayou.spark.kafka.data_source import KafkaDataSource
from bayou.spark.kafka.embedded_broker import EmbeddedBroker, ProducedRecord
from bayou.spark.kafka.offsets import OffsetRange, TopicPartition, format_offsets, parse_offsets
from bayou.spark.kafka.planning import KafkaTasks

__all__ = [
    "DATA_LOSS_ADVICE",
    "EmbeddedBroker",
    "KafkaCluster",
    "KafkaDataSource",
    "KafkaTasks",
    "OffsetRange",
    "ProducedRecord",
    "TopicPartition",
    "format_offsets",
    "parse_offsets",
    "topic_identity",
]
