from __future__ import annotations

import pytest


@pytest.fixture
def frame(spark):
    """A DataFrame with one row and the column `a`."""
    return spark.sql("SELECT 1 AS a")
