"""These tests are about the data source: no other way of reading may take over."""

import pytest

from bayou.spark.native_read.read_planner import READER


@pytest.fixture(autouse=True)
def read_by_the_data_source(request):
    if request.node.get_closest_marker("spark") is None:
        yield
        return
    spark = request.getfixturevalue("spark")
    spark.conf.set(READER, "source")
    yield
    spark.conf.unset(READER)
