"""The data source `bayou-kafka`: Kafka topics as DataFrames, without a JAR.

Start reading at `data_source`. `planning` determines the offset ranges of a read. `consumer` reads
an offset range in a task.
"""

from typing import TYPE_CHECKING

from bayou import lazy_import

if TYPE_CHECKING:
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

__getattr__ = lazy_import.lazy_getattr(
    __name__,
    {
        "DATA_LOSS_ADVICE": "bayou.spark.kafka.data_loss",
        "EmbeddedBroker": "bayou.spark.kafka.embedded_broker",
        "KafkaCluster": "bayou.spark.kafka.cluster",
        "KafkaDataSource": "bayou.spark.kafka.data_source",
        "KafkaTasks": "bayou.spark.kafka.planning",
        "OffsetRange": "bayou.spark.kafka.offsets",
        "ProducedRecord": "bayou.spark.kafka.embedded_broker",
        "TopicPartition": "bayou.spark.kafka.offsets",
        "format_offsets": "bayou.spark.kafka.offsets",
        "parse_offsets": "bayou.spark.kafka.offsets",
        "topic_identity": "bayou.spark.kafka.cluster",
    },
)
