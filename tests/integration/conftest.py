"""Servers for all tests here: Kafka, S3, a Spark cluster, each started when first asked for."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from servers import KafkaSecurity, KafkaServer, S3Server, SparkCluster


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory) -> Iterator[KafkaServer]:
    security = KafkaSecurity.of(tmp_path_factory.mktemp("keys"), "bayou", "hunter-broker")
    with KafkaServer(tmp_path_factory.mktemp("kafka"), security=security) as server:
        yield server


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """A bucket of the test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    s3_server.create_bucket(name)
    return name


@pytest.fixture
def environment(s3_server: S3Server) -> dict[str, str]:
    """An environment in which a process reaches the S3 server and says nothing of other ones."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "KAFKA_", "BAYOU_"))}
    return {**kept, **s3_server.storage_options}
