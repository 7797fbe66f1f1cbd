"""Registers the format `delta`: Spark looks for `DefaultSource` in modules named `pyspark_*`."""

from bayou.spark.data_source import DeltaDataSource

__all__ = ["DefaultSource"]


class DefaultSource(DeltaDataSource):
    """The data source for the format `delta`. Spark requires this class name."""
