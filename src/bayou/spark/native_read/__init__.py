"""Native reads: Spark's own Parquet reader reads the files that the kernel lists.

`read_planner` chooses between a native scan and the Python data source. `relation` builds the
DataFrame of a native scan.
"""

from bayou.spark.native_read.read_planner import load

__all__ = ["load"]
