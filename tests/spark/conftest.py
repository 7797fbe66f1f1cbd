"""One Spark session for all tests under tests/spark: starting one takes six seconds."""

import pytest

from bayou.spark import start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
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
