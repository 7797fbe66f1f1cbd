"""The `Engine` protocol and its handlers, through which the kernel does I/O.

The kernel does no I/O itself: it calls these protocols. A connector passes its own implementation
or `bayou.engines.arrow.ArrowEngine`. Names follow Delta Kernel. Data is passed as
`pyarrow.RecordBatch`. Paths are decoded strings (never percent-encoded): URIs for object stores
(`s3://bucket/key`) and absolute paths for local files. Iterators are lazy and closeable; the
decorator `bayou.kernel.arrow.closeable.closeable` creates them from generator functions. Handlers
are thread-safe, iterators aren't. Errors are types of `bayou.errors`. An iterator raises an error
when it reaches the affected item.
"""

from bayou.kernel.engine.engine import CommitDefaults, CommitSettings, Engine, commit_settings
from bayou.kernel.engine.expression_handler import (
    ExpressionEvaluator,
    ExpressionHandler,
    PredicateEvaluator,
)
from bayou.kernel.engine.file_system import (
    TEMPORARY_FILE_PATTERN,
    ByteRange,
    FileStatus,
    FileSystemClient,
)
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
    "TEMPORARY_FILE_PATTERN",
    "VARIANT_KEY",
    "ByteRange",
    "CommitDefaults",
    "CommitSettings",
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
    "commit_settings",
]
