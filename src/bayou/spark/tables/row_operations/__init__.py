from bayou.spark.tables.row_operations.delete_update import run_delete, run_update
from bayou.spark.tables.row_operations.merge import run_merge, source_alias
from bayou.spark.tables.row_operations.merge_by_spark import merge_kept_rows
from bayou.spark.tables.row_operations.merge_request import MergeRequest, RequestedClause

__all__ = [
    "MergeRequest",
    "RequestedClause",
    "merge_kept_rows",
    "run_delete",
    "run_merge",
    "run_update",
    "source_alias",
]
