"""A Kafka broker inside the process: librdkafka's mock cluster.

It speaks Kafka's protocol over TCP on loopback, so that any client, Spark's executors too, reads
from it. It is made for demos and tests: it keeps 5 MiB or 100,000 batches of a partition and drops
the oldest beyond without a word. `EmbeddedBroker.produce` therefore compares the watermarks and
raises.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from bayou.errors import KafkaError
from bayou.spark.kafka.client import logger, require_confluent_kafka

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer


class ProducedRecord(NamedTuple):
    """A record to produce.

    Attributes:
        value: None is a tombstone.
        partition: None leaves it to the key, or to chance where there is none.
        timestamp: milliseconds since the epoch, None for now.
    """

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: list[tuple[str, bytes | None]] | None = None


class EmbeddedBroker:
    """A context manager around a mock cluster, with the topics asked for.

    Args:
        topics: partitions of each topic; more by `create_topic`. A topic that somebody else asks
            for is not made.
        brokers: number of brokers of the cluster.
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
        """The brokers as host:port, comma separated; empty before the start."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the brokers; the records are gone. Closing twice is fine."""
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
        """Creates a topic.

        Raises:
            KafkaError: the broker refuses, for one because the topic exists.
        """
        library = self._running()
        code = library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)
        if code != 0:
            reason = library.rd_kafka_err2str(code).decode()
            raise KafkaError(
                f"The embedded broker can't create topic {topic!r} with {partitions} partitions: "
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
        """Produces records and waits until the broker has them; returns how many.

        Args:
            topic: an existing topic.
            records: values alone, or records.
            properties: of the producer, over ours (zstd, large batches).
            keep_all: False lets the broker drop its oldest records beyond its limits.

        Raises:
            KafkaError: not all records arrived, or the broker dropped some.
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
            given = ProducedRecord(record) if isinstance(record, bytes) else record
            try:
                _send(producer, topic, given, delivered)
            except KafkaException as error:
                failures.append(str(error.args[0]))
                break
            count += 1
            if count % 10_000 == 0:
                producer.poll(0)
        waiting = producer.flush(_FLUSH)
        if failures or waiting:
            reason = failures[0] if failures else f"{waiting} still waiting after {_FLUSH} s"
            raise KafkaError(
                f"The embedded broker didn't take all records of topic {topic!r}: {reason}.",
                topic=topic,
            )
        if keep_all:
            self._check_kept(topic, before, count)
        return count

    def watermarks(self, topic: str) -> dict[int, tuple[int, int]]:
        """For each partition the offset of its first record and that behind its last."""
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
        known = self._consumer.list_topics(topic, timeout=_ANSWER).topics[topic]
        if known.error is not None:
            raise KafkaError(f"The embedded broker has no topic {topic!r}.", topic=topic)
        marks: dict[int, tuple[int, int]] = {}
        for number in sorted(known.partitions):
            found = self._consumer.get_watermark_offsets(
                TopicPartition(topic, number), timeout=_ANSWER
            )
            if found is None:
                raise KafkaError(
                    f"The embedded broker doesn't answer for topic {topic!r}.", topic=topic
                )
            marks[number] = found
        return marks

    def _check_kept(self, topic: str, before: dict[int, tuple[int, int]], count: int) -> None:
        after = self.watermarks(topic)
        dropped = sum(low - before[number][0] for number, (low, _) in after.items())
        arrived = sum(high - before[number][1] for number, (_, high) in after.items())
        if dropped or arrived != count:
            raise KafkaError(
                f"The embedded broker dropped {dropped} of the oldest records of topic {topic!r}, "
                f"and took {arrived} of {count}: it keeps 5 MiB (as sent, compressed) and 100,000 "
                "batches of a partition. Use more partitions or fewer records, or a real broker.",
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
            raise KafkaError("The embedded broker isn't running: use it in a with statement.")
        return self._library

    def _start(self) -> None:
        if self._library is not None:
            return
        library = _load_library()
        reason = ctypes.create_string_buffer(512)
        settings = library.rd_kafka_conf_new()
        # Without brokers of its own it would warn on stderr.
        for name, value in (("bootstrap.servers", "127.0.0.1:1"), ("log_level", "0")):
            library.rd_kafka_conf_set(settings, name.encode(), value.encode(), reason, len(reason))
        client = library.rd_kafka_new(_PRODUCER, settings, reason, len(reason))
        if not client:
            raise KafkaError(f"The embedded broker can't start: {reason.value.decode()}.")
        cluster = library.rd_kafka_mock_cluster_new(client, self._brokers)
        if not cluster:
            library.rd_kafka_destroy(client)
            raise KafkaError(
                "The embedded broker can't start: it found no free port on the loopback interface."
            )
        self._library, self._client, self._cluster = library, client, cluster
        self._bootstrap_servers = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()


def _send(
    producer: Producer,
    topic: str,
    record: ProducedRecord,
    delivered: Callable[[object, object], None],
) -> None:
    """Hands a record to the producer; waits while its queue is full."""
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
    """The library that confluent-kafka has loaded: its extension module links to it."""
    require_confluent_kafka()
    from confluent_kafka import cimpl

    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (number, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2str": (text, [number]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


_PRODUCER = 0
_FLUSH = 120.0
_ANSWER = 10.0
