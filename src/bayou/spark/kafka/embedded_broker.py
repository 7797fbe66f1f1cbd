"""A Kafka broker inside the process, for demos and tests: librdkafka's mock cluster.

The broker implements Kafka's protocol over TCP on the loopback interface. Any client on this
machine can connect, including Spark's executors. For each partition, the broker retains at most 5
MiB and 100,000 record batches. It drops older batches without an error. `EmbeddedBroker.produce`
detects this, and raises an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Self

from bayou.errors import KafkaError
from bayou.spark.kafka.client import logger, require_confluent_kafka

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer


class ProducedRecord(NamedTuple):
    """A record to produce.

    Attributes:
        value: the record's value; None for a tombstone.
        key: the record's key; None for a record without a key.
        partition: number of the partition. If None, the key determines the partition. If the key is
            also None, the partition is random.
        timestamp: milliseconds since the epoch; None for the current time.
        headers: (name, value) pairs; None for no headers.

    Examples:
        >>> with EmbeddedBroker({"orders": 2}) as broker:
        ...     broker.produce("orders", [ProducedRecord(b'{"id": 1}', key=b"1", partition=0)])
    """

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: list[tuple[str, bytes | None]] | None = None


class EmbeddedBroker:
    """A context manager that runs a mock cluster.

    Args:
        topics: the topics to create, by name, each with its number of partitions. A client's
            request never creates a topic; use `create_topic`.
        brokers: number of brokers.

    Examples:
        >>> with EmbeddedBroker({"orders": 2}) as broker:
        ...     broker.produce("orders", [b'{"id": 1}', b'{"id": 2}'])
        ...     print(broker.bootstrap_servers)
    """

    def __init__(self, topics: Mapping[str, int] | None = None, *, brokers: int = 1) -> None:
        self._topics = dict(topics or {})
        self._brokers = brokers
        self._library: ctypes.CDLL | None = None
        self._client: int | None = None
        self._cluster: int | None = None
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._bootstrap_servers = ""

    @property
    def bootstrap_servers(self) -> str:
        """Addresses (host:port) of the brokers, separated by commas; empty before their start."""
        return self._bootstrap_servers

    def __enter__(self) -> Self:
        self._start()
        try:
            for topic, partitions in self._topics.items():
                self.create_topic(topic, partitions)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the brokers and discard the records. A second call does nothing."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._producer = None
        if self._library is not None:
            if self._cluster is not None:
                self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            if self._client is not None:
                self._library.rd_kafka_destroy(self._client)
        self._library = self._client = self._cluster = None

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic.

        Raises:
            KafkaError: the topic already exists, or can't be created.
        """
        library = self._running()
        code = library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)
        if code != 0:
            reason = library.rd_kafka_err2str(code).decode()
            raise KafkaError(
                f"Embedded broker: topic {topic!r} with {partitions} partitions can't be created: "
                f"{reason}.",
                topic=topic,
            )

    def produce(
        self,
        topic: str,
        records: Iterable[ProducedRecord | bytes],
        *,
        properties: Mapping[str, str] | None = None,
        keep_all: bool = True,
    ) -> int:
        """Produce records, wait until the broker has them, and return their number.

        Args:
            topic: an existing topic.
            records: values as bytes, or `ProducedRecord`s.
            properties: producer properties, which override the defaults (zstd, large batches).
            keep_all: whether to raise an error if the broker drops records beyond its limits.

        Raises:
            KafkaError: the broker didn't accept all records, or it dropped records and `keep_all`
                is true.
        """
        from confluent_kafka import KafkaException

        producer = self._make_producer(properties)
        before = self.watermarks(topic)
        count = 0
        failures: list[str] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(str(error))

        for record in records:
            produced = ProducedRecord(record) if isinstance(record, bytes) else record
            try:
                _send(producer, topic, produced, delivered)
            except KafkaException as error:
                failures.append(str(error.args[0]))
                break
            count += 1
            if count % 10_000 == 0:
                producer.poll(0)
        pending = producer.flush(_FLUSH_TIMEOUT)
        if failures or pending:
            reason = (
                failures[0]
                if failures
                else f"{pending} records are still queued after {_FLUSH_TIMEOUT} s"
            )
            raise KafkaError(
                f"Embedded broker: it didn't accept all records of topic {topic!r}: {reason}.",
                topic=topic,
            )
        if keep_all:
            self._check_retained(topic, before, count)
        return count

    def watermarks(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return the first offset and the end offset of each partition, by partition number."""
        from confluent_kafka import Consumer, TopicPartition

        self._running()
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    "bootstrap.servers": self._bootstrap_servers,
                    "group.id": "bayou",
                    "logger": logger,
                }
            )
        known = self._consumer.list_topics(topic, timeout=_REQUEST_TIMEOUT).topics[topic]
        if known.error is not None:
            raise KafkaError(
                f"Embedded broker: topic {topic!r} doesn't exist. Create it with create_topic().",
                topic=topic,
            )
        watermarks: dict[int, tuple[int, int]] = {}
        for number in sorted(known.partitions):
            offsets = self._consumer.get_watermark_offsets(
                TopicPartition(topic, number), timeout=_REQUEST_TIMEOUT
            )
            if offsets is None:
                raise KafkaError(
                    f"Embedded broker: it doesn't report the offsets of topic {topic!r}. "
                    "Start it again.",
                    topic=topic,
                )
            watermarks[number] = offsets
        return watermarks

    def _check_retained(self, topic: str, before: dict[int, tuple[int, int]], count: int) -> None:
        after = self.watermarks(topic)
        dropped = sum(low - before[number][0] for number, (low, _) in after.items())
        arrived = sum(high - before[number][1] for number, (_, high) in after.items())
        if dropped or arrived != count:
            raise KafkaError(
                f"Embedded broker: it dropped {dropped} of the oldest records of topic {topic!r}, "
                f"and accepted {arrived} of {count} new records. A partition retains at most 5 MiB "
                "(compressed) and at most 100,000 batches. Use more partitions, fewer records, or "
                "a real broker.",
                topic=topic,
            )

    def _make_producer(self, properties: Mapping[str, str] | None) -> Producer:
        from confluent_kafka import Producer

        self._running()
        if self._producer is not None and not properties:
            return self._producer
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "compression.type": "zstd",
                "linger.ms": 100,
                "batch.size": 1_000_000,
                "batch.num.messages": 100_000,
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": 262_144,
                "logger": logger,
                **(properties or {}),
            }
        )
        if not properties:
            self._producer = producer
        return producer

    def _running(self) -> ctypes.CDLL:
        if self._library is None:
            raise KafkaError("Embedded broker: it isn't running. Use it in a with statement.")
        return self._library

    def _start(self) -> None:
        if self._library is not None:
            return
        library = _load_library()
        reason = ctypes.create_string_buffer(512)
        settings = library.rd_kafka_conf_new()
        # Without bootstrap.servers, librdkafka logs a warning to stderr.
        for name, value in (("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0")):
            library.rd_kafka_conf_set(settings, name.encode(), value.encode(), reason, len(reason))
        client = library.rd_kafka_new(_PRODUCER, settings, reason, len(reason))
        if not client:
            raise KafkaError(f"Embedded broker: it can't start: {reason.value.decode()}.")
        cluster = library.rd_kafka_mock_cluster_new(client, self._brokers)
        if not cluster:
            library.rd_kafka_destroy(client)
            raise KafkaError(
                "Embedded broker: it can't start. The loopback interface has no free port."
            )
        self._library, self._client, self._cluster = library, client, cluster
        self._bootstrap_servers = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()


def _send(
    producer: Producer,
    topic: str,
    record: ProducedRecord,
    delivered: Callable[[object, object], None],
) -> None:
    """Pass a record to the producer. If the producer's queue is full, wait until it has space."""
    while True:
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=-1 if record.partition is None else record.partition,
                timestamp=record.timestamp or 0,
                headers=record.headers,  # type: ignore[arg-type]
                on_delivery=delivered,
            )
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _load_library() -> ctypes.CDLL:
    """Load the librdkafka library that confluent-kafka's extension module uses."""
    require_confluent_kafka()
    from confluent_kafka import cimpl

    library = ctypes.CDLL(cimpl.__file__)
    pointer, string, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (number, [pointer, string, string, string, ctypes.c_size_t]),
        "rd_kafka_new": (pointer, [number, pointer, string, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2str": (string, [number]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (string, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, string, number, number]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


_PRODUCER = 0
_FLUSH_TIMEOUT = 120.0
_REQUEST_TIMEOUT = 10.0
