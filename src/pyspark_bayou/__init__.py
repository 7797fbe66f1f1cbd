"""Registers the format `delta`: Spark finds `DefaultSource` in installed `pyspark_*` modules."""

from bayou.spark.data_source import DeltaDataSource

__all__ = ["DefaultSource"]


class DefaultSource(DeltaDataSource):
    """The data source for the format `delta`; Spark requires the class name."""
