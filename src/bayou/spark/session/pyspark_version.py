"""Is this a PySpark that Bayou knows? Importing this module asks, before other imports fail."""

from __future__ import annotations

import re

import pyspark

from bayou.errors import PrerequisiteError

__all__ = ["OLDEST", "check_pyspark"]

OLDEST = (4, 1)
"""Older ones have no filters for Python data sources; before 4.2 there are no streams with limits,
see `read_limits`."""


def check_pyspark(version: str) -> None:
    """Refuse a version that is too old.

    Raises:
        PrerequisiteError: it is older than `OLDEST`.
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise PrerequisiteError(
            f"This is PySpark {version}, and bayou.spark needs 4.1 or newer: pip install "
            "'pyspark>=4.1'. Without Spark, bayou.table and bayou.write work as they are.",
            what="pyspark",
        )


check_pyspark(pyspark.__version__)
