"""Native reads: Spark's own Parquet scan, with the files of a kernel scan.

`read_planner` decides between a native read and the data source. `relation` builds the DataFrame.
"""

from bayou.spark.native_read.read_planner import load

__all__ = ["load"]
