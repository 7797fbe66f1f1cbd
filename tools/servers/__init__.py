"""Real servers on loopback for tests and benchmarks: a Kafka broker, and an S3 server.

`tools/fetch_servers.py` fetches them; nothing here needs Bayou.
"""

from servers.kafka import KafkaServer
from servers.s3 import S3Server

__all__ = ["KafkaServer", "S3Server"]
