"""Real servers on loopback for tests and benchmarks: Kafka, S3, Azure, Hive, a Spark cluster.

`tools/fetch_servers.py` fetches those that pip doesn't; nothing here needs Bayou.
"""

from servers.azure import AzureServer
from servers.hive import HiveMetastore
from servers.kafka import KafkaServer
from servers.kafka_security import KafkaSecurity
from servers.s3 import S3Server
from servers.spark_cluster import SparkCluster

__all__ = [
    "AzureServer",
    "HiveMetastore",
    "KafkaSecurity",
    "KafkaServer",
    "S3Server",
    "SparkCluster",
]
