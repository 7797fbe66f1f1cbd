"""Reads by Spark's own Parquet scan over the kernel's list of files.

`read_planner` decides between this scan and the data source, `relation` builds the DataFrame.
"""

from bayou.spark.native_read.read_planner import load

__all__ = ["load"]
