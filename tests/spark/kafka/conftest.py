"""A broker inside the process, one a module: it starts in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from bayou.spark.kafka import EmbeddedBroker, KafkaDataSource


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def source(broker: EmbeddedBroker) -> Callable[..., KafkaDataSource]:
    """The data source as Spark makes it, with the options given."""

    def make(**options: str) -> KafkaDataSource:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options}
        return KafkaDataSource(CaseInsensitiveDict(given))

    return make
