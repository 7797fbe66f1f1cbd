"""Writes of DataFrames: `df.write`, `df.writeTo`, `df.writeStream`.

Start reading at `writer_hooks`. `started_write` plans and commits a write; `tasks` runs on
executors.
"""

from bayou.spark.write.options import WriteOptions
from bayou.spark.write.started_write import StartedWrite, start_write

__all__ = ["StartedWrite", "WriteOptions", "start_write"]
