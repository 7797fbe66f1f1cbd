"""What the kernel asks of a connector: the `Engine` and its handlers.

The kernel does no I/O of its own. It knows what the log means and calls these protocols for every
byte; a connector implements them or takes `bayou.engines.arrow.ArrowEngine`. Names follow Delta
Kernel. Columns travel as `pyarrow.RecordBatch`; paths are strings, URIs for object stores
(`s3://bucket/key`) and plain absolute paths for local files, always *decoded* (never
percent-encoded). Iterators are lazy and can be closed: `bayou.kernel.arrow.closeable.closeable`
makes one of a generator function. Handlers are shared by threads, an iterator belongs to one of
them. What goes wrong is one of `bayou.errors`, raised when the item is asked for that it prevents.
"""

from bayou.kernel.engine.engine import CommitNotes, Engine
from bayou.kernel.engine.expression_handler import (
    ExpressionEvaluator,
    ExpressionHandler,
    PredicateEvaluator,
)
from bayou.kernel.engine.file_system import UNFINISHED, ByteRange, FileStatus, FileSystemClient
from bayou.kernel.engine.json_handler import JsonHandler
from bayou.kernel.engine.parquet_handler import (
    FIELD_ID_KEY,
    METADATA_COLUMN_KEY,
    ROW_INDEX,
    VARIANT_KEY,
    DataFileStatus,
    FileSplit,
    ParquetFooter,
    ParquetHandler,
    ParquetWriteOptions,
    RowGroup,
)

__all__ = [
    "FIELD_ID_KEY",
    "METADATA_COLUMN_KEY",
    "ROW_INDEX",
    "UNFINISHED",
    "VARIANT_KEY",
    "ByteRange",
    "CommitNotes",
    "DataFileStatus",
    "Engine",
    "ExpressionEvaluator",
    "ExpressionHandler",
    "FileSplit",
    "FileStatus",
    "FileSystemClient",
    "JsonHandler",
    "ParquetFooter",
    "ParquetHandler",
    "ParquetWriteOptions",
    "PredicateEvaluator",
    "RowGroup",
]
