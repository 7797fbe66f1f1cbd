"""Distinguishes classic sessions from Spark Connect."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def is_classic(spark: Any) -> bool:
    """Whether a session is classic, with access to the JVM, and not a Spark Connect session."""
    return isinstance(spark, SparkSession)
