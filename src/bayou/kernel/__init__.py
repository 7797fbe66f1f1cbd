"""A Delta Kernel in Python: the Delta protocol over Arrow, with a pluggable `Engine`.

Names follow Delta Kernel. Each call takes the engine as an argument; the engine is never stored.
"""

from typing import TYPE_CHECKING

from bayou.lazy_import import lazy_getattr as _lazy_getattr

if TYPE_CHECKING:
    from bayou.kernel.arrow.closeable import CloseableIterator, closeable
    from bayou.kernel.arrow.row import FilteredColumnarBatch, Row
    from bayou.kernel.catalog import (
        Catalog,
        CommittingCatalog,
        MaintainingCatalog,
        RatifiedCommit,
        RatifiedCommits,
    )
    from bayou.kernel.data_writer.data_writer import delete_data_files, write_data
    from bayou.kernel.deletion_vectors.prefetch import LoadedVectors, prefetch_vectors
    from bayou.kernel.engine import (
        ByteRange,
        DataFileStatus,
        Engine,
        ExpressionHandler,
        FileSplit,
        FileStatus,
        FileSystemClient,
        JsonHandler,
        ParquetHandler,
        ParquetWriteOptions,
        RowGroup,
    )
    from bayou.kernel.engine.engine import EngineDescription
    from bayou.kernel.expressions.model import Predicate, col, lit
    from bayou.kernel.log.slices import LogSlice
    from bayou.kernel.metrics import (
        FileReadReport,
        LoggingReporter,
        MetricsReporter,
        ScanReport,
        SnapshotReport,
        TransactionMetrics,
        TransactionReport,
    )
    from bayou.kernel.operation import Operation
    from bayou.kernel.scan.scan import Scan, ScanBuilder
    from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch
    from bayou.kernel.scan.scan_state import ScanState
    from bayou.kernel.scan.transform import read_scan_file
    from bayou.kernel.snapshot import Snapshot
    from bayou.kernel.table import Table
    from bayou.kernel.table_changes.action_columns import DeltaAction
    from bayou.kernel.table_changes.change_file import ChangeFile, ChangeState
    from bayou.kernel.table_changes.change_scan import ChangeScan, ChangeScanBuilder
    from bayou.kernel.table_changes.commit_range import (
        CommitActions,
        CommitBoundary,
        CommitRange,
        CommitRangeBuilder,
    )
    from bayou.kernel.table_changes.table_changes import TableChanges, read_change_file
    from bayou.kernel.transaction.builder import TransactionBuilder
    from bayou.kernel.transaction.commit import TransactionCommitResult, discard_unless_committed
    from bayou.kernel.transaction.committers import stage_commit
    from bayou.kernel.transaction.post_commit_hooks import PostCommitHook
    from bayou.kernel.transaction.transaction import Transaction
    from bayou.kernel.transaction_state import TransactionState, WriteContext
    from bayou.protocol.actions import decode_actions, encode_actions
    from bayou.protocol.stats import FileStatistics

__all__ = [
    "ByteRange",
    "Catalog",
    "ChangeFile",
    "ChangeScan",
    "ChangeScanBuilder",
    "ChangeState",
    "CloseableIterator",
    "CommitActions",
    "CommitBoundary",
    "CommitRange",
    "CommitRangeBuilder",
    "CommittingCatalog",
    "DataFileStatus",
    "DeltaAction",
    "Engine",
    "EngineDescription",
    "ExpressionHandler",
    "FileReadReport",
    "FileSplit",
    "FileStatistics",
    "FileStatus",
    "FileSystemClient",
    "FilteredColumnarBatch",
    "JsonHandler",
    "LoadedVectors",
    "LogSlice",
    "LoggingReporter",
    "MaintainingCatalog",
    "MetricsReporter",
    "Operation",
    "ParquetHandler",
    "ParquetWriteOptions",
    "PostCommitHook",
    "Predicate",
    "RatifiedCommit",
    "RatifiedCommits",
    "Row",
    "RowGroup",
    "Scan",
    "ScanBuilder",
    "ScanFile",
    "ScanFileBatch",
    "ScanReport",
    "ScanState",
    "Snapshot",
    "SnapshotReport",
    "Table",
    "TableChanges",
    "Transaction",
    "TransactionBuilder",
    "TransactionCommitResult",
    "TransactionMetrics",
    "TransactionReport",
    "TransactionState",
    "WriteContext",
    "closeable",
    "col",
    "decode_actions",
    "delete_data_files",
    "discard_unless_committed",
    "encode_actions",
    "lit",
    "prefetch_vectors",
    "read_change_file",
    "read_scan_file",
    "stage_commit",
    "write_data",
]

_MODULES = {
    "ByteRange": "kernel.engine",
    "Catalog": "kernel.catalog",
    "ChangeFile": "kernel.table_changes.change_file",
    "ChangeScan": "kernel.table_changes.change_scan",
    "ChangeScanBuilder": "kernel.table_changes.change_scan",
    "ChangeState": "kernel.table_changes.change_file",
    "CloseableIterator": "kernel.arrow.closeable",
    "CommitActions": "kernel.table_changes.commit_range",
    "CommitBoundary": "kernel.table_changes.commit_range",
    "CommitRange": "kernel.table_changes.commit_range",
    "CommitRangeBuilder": "kernel.table_changes.commit_range",
    "CommittingCatalog": "kernel.catalog",
    "DataFileStatus": "kernel.engine",
    "DeltaAction": "kernel.table_changes.action_columns",
    "Engine": "kernel.engine",
    "EngineDescription": "kernel.engine.engine",
    "ExpressionHandler": "kernel.engine",
    "FileReadReport": "kernel.metrics",
    "FileSplit": "kernel.engine",
    "FileStatistics": "protocol.stats",
    "FileStatus": "kernel.engine",
    "FileSystemClient": "kernel.engine",
    "FilteredColumnarBatch": "kernel.arrow.row",
    "JsonHandler": "kernel.engine",
    "LoadedVectors": "kernel.deletion_vectors.prefetch",
    "LogSlice": "kernel.log.slices",
    "LoggingReporter": "kernel.metrics",
    "MaintainingCatalog": "kernel.catalog",
    "MetricsReporter": "kernel.metrics",
    "Operation": "kernel.operation",
    "ParquetHandler": "kernel.engine",
    "ParquetWriteOptions": "kernel.engine",
    "PostCommitHook": "kernel.transaction.post_commit_hooks",
    "Predicate": "kernel.expressions.model",
    "RatifiedCommit": "kernel.catalog",
    "RatifiedCommits": "kernel.catalog",
    "Row": "kernel.arrow.row",
    "RowGroup": "kernel.engine",
    "Scan": "kernel.scan.scan",
    "ScanBuilder": "kernel.scan.scan",
    "ScanFile": "kernel.scan.scan_file",
    "ScanFileBatch": "kernel.scan.scan_file",
    "ScanReport": "kernel.metrics",
    "ScanState": "kernel.scan.scan_state",
    "Snapshot": "kernel.snapshot",
    "SnapshotReport": "kernel.metrics",
    "Table": "kernel.table",
    "TableChanges": "kernel.table_changes.table_changes",
    "Transaction": "kernel.transaction.transaction",
    "TransactionBuilder": "kernel.transaction.builder",
    "TransactionCommitResult": "kernel.transaction.commit",
    "TransactionMetrics": "kernel.metrics",
    "TransactionReport": "kernel.metrics",
    "TransactionState": "kernel.transaction_state",
    "WriteContext": "kernel.transaction_state",
    "closeable": "kernel.arrow.closeable",
    "col": "kernel.expressions.model",
    "decode_actions": "protocol.actions",
    "delete_data_files": "kernel.data_writer.data_writer",
    "discard_unless_committed": "kernel.transaction.commit",
    "encode_actions": "protocol.actions",
    "lit": "kernel.expressions.model",
    "prefetch_vectors": "kernel.deletion_vectors.prefetch",
    "read_change_file": "kernel.table_changes.table_changes",
    "read_scan_file": "kernel.scan.transform",
    "stage_commit": "kernel.transaction.committers",
    "write_data": "kernel.data_writer.data_writer",
}

__getattr__ = _lazy_getattr(
    __name__, {name: f"bayou.{module}" for name, module in _MODULES.items()}
)
