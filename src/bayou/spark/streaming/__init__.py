"""Delta tables as streaming sources: offsets, micro-batches, and tracking of schema changes.

Start reading at `table_stream`. Offsets, options and errors are the same as in delta-spark.
"""

from bayou.spark.streaming.offsets import SourceOffset
from bayou.spark.streaming.options import StreamOptions, reads_change_feed
from bayou.spark.streaming.schema_tracking import SchemaTracking
from bayou.spark.streaming.table_stream import StreamBatch, TableStream

__all__ = [
    "SchemaTracking",
    "SourceOffset",
    "StreamBatch",
    "StreamOptions",
    "TableStream",
    "reads_change_feed",
]
