from bayou.spark.source.data_source import DeltaDataSource

__all__ = ["DeltaDataSource"]
