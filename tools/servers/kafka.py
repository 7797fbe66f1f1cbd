"""A Kafka cluster of a single node: broker and controller in one process (KRaft)."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from servers.folders import kafka_folder
from servers.kafka_security import KafkaSecurity
from servers.process import ServerError, ServerProcess, free_port
from servers.server import Server

__all__ = ["KafkaServer"]

_TIMEOUT = 60.0
_LARGEST_RECORD = 24 << 20


class KafkaServer(Server):
    """A Kafka broker.

    Topics are not created automatically. The maximum record size is 24 MB. A restart keeps the
    cluster id and the data.

    Args:
        folder: folder for data and logs.
        memory: heap of the JVM, in MB.
        security: additional listeners with authentication.
    """

    def __init__(
        self, folder: Path, *, memory: int = 512, security: KafkaSecurity | None = None
    ) -> None:
        super().__init__()
        self._folder = folder
        self._memory = memory
        self.security = security
        self.log = folder / "kafka.log"

    @property
    def bootstrap_servers(self) -> str:
        """The `bootstrap.servers` of clients."""
        return f"127.0.0.1:{self.port}"

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic, and wait until it accepts records."""
        self.create_topics([name], partitions, config)

    def create_topics(
        self, names: Sequence[str], partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create topics, and wait until they accept records."""
        topics = [NewTopic(name, partitions, 1, config=dict(config or {})) for name in names]
        admin = self._admin()
        _finish(admin.create_topics(topics, operation_timeout=_TIMEOUT))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is deleted."""
        self.delete_topics([name])

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics, and wait until they are deleted."""
        admin = self._admin()
        _finish(admin.delete_topics(list(names), operation_timeout=_TIMEOUT))

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase a topic's partitions to `total`, and wait until the broker reports them."""
        admin = self._admin()
        _finish(admin.create_partitions([NewPartitions(topic, total)], operation_timeout=_TIMEOUT))
        deadline = time.monotonic() + _TIMEOUT
        while len(admin.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions) < total:
            if time.monotonic() > deadline:
                raise ServerError(f"the new partitions of {topic} don't show")
            time.sleep(0.1)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records before an offset of each partition, as Kafka's retention does."""
        wanted = [TopicPartition(topic, p, offset) for p, offset in before.items()]
        admin = self._admin()
        _finish(admin.delete_records(wanted))

    def _check_fetched(self) -> None:
        if not _libraries().is_dir():
            raise ServerError(f"{_libraries()} isn't there; tools/fetch_servers.py fetches it")

    def _launch(self, port: int) -> ServerProcess:
        settings = self._folder / "server.properties"
        if not settings.exists() or self.port is None:
            self._write_settings(settings, port)
            self._format(settings)
        process = ServerProcess(
            [*self._java(), "kafka.Kafka", str(settings)],
            log=self.log,
            environment=os.environ,
        )
        others = () if self.security is None else self.security.ports
        process.wait_until(
            lambda: all(map(_listens, others)) and _answers(f"127.0.0.1:{port}"), timeout=_TIMEOUT
        )
        return process

    def _write_settings(self, settings: Path, port: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        controller = free_port()
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(
                [
                    f"PLAINTEXT://127.0.0.1:{port}",
                    f"CONTROLLER://127.0.0.1:{controller}",
                    *(() if self.security is None else (self.security.listeners,)),
                ]
            ),
            "log.dirs": str(self._folder / "data"),
            "auto.create.topics.enable": "false",
            "message.max.bytes": str(_LARGEST_RECORD),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A killed broker can register again after its old registration expires.
            "broker.heartbeat.interval.ms": "300",
            "broker.session.timeout.ms": "1500",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": str(16 << 20),
            **({} if self.security is None else self.security.settings()),
        }
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        settings.write_text(text, encoding="utf-8")

    def _format(self, settings: Path) -> None:
        command = [*self._java(), "kafka.tools.StorageTool", "format"]
        command += ["--cluster-id", uuid4().hex[:22], "--config", str(settings)]
        command += ["--ignore-formatted"]
        if self.security is not None:
            command += self.security.format_arguments()
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
        if done.returncode:
            raise ServerError(f"Kafka's storage can't be formatted: {done.stdout}{done.stderr}")

    def _java(self) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        return [
            f"{home}/bin/java" if home else "java",
            *(f"-Xmx{self._memory}m", "-Xms128m", "-XX:+UseSerialGC"),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            *("-cp", f"{_libraries()}/*"),
        ]

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})


def _libraries() -> Path:
    return kafka_folder() / "libs"


def _answers(address: str) -> bool:
    quiet = {"bootstrap.servers": address, "log_level": 0, "socket.timeout.ms": 2000}
    try:
        return bool(AdminClient(quiet).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _finish(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result()
