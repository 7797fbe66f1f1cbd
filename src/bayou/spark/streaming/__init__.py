"""What a stream of a Delta table reads, as delta-spark's source does; knows nothing of Spark."""

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
