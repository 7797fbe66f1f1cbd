"""One Spark session for all tests of a worker process: starting one takes six seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A classic session of two threads, enabled, in UTC. Leave its settings as they were."""
    from bayou.spark import start_session

    session = start_session(
        "bayou-tests",
        {
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.driver.memory": "1g",
        },
        master="local[2]",
        time_zone="UTC",
    )
    yield session
    session.stop()
