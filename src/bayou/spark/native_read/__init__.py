"""Native reads: Spark's own Parquet reader reads the files that the kernel lists.

`read_planner` decides between a native scan and the data source. `relation` builds the DataFrame.
"""

from bayou.spark.native_read.read_planner import load

__all__ = ["load"]
