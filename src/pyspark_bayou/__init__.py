"""Where stock Spark finds the format `delta`: it looks into every installed `pyspark_*` module."""

from bayou.spark.data_source import DeltaDataSource

__all__ = ["DefaultSource"]


class DefaultSource(DeltaDataSource):
    """Delta tables, under the name `delta`."""
