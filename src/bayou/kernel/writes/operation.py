"""What a commit says it did."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["WITHOUT_NEW_ROWS", "Operation"]


class Operation(StrEnum):
    """`commitInfo.operation`, in delta-spark's words."""

    CREATE_TABLE = "CREATE TABLE"
    REPLACE_TABLE = "REPLACE TABLE"
    CREATE_OR_REPLACE_TABLE = "CREATE OR REPLACE TABLE"
    WRITE = "WRITE"
    STREAMING_UPDATE = "STREAMING UPDATE"
    DELETE = "DELETE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"
    OPTIMIZE = "OPTIMIZE"
    REORG = "REORG"
    RESTORE = "RESTORE"
    CLONE = "CLONE"
    CONVERT = "CONVERT"
    VACUUM_START = "VACUUM START"
    VACUUM_END = "VACUUM END"
    ADD_COLUMNS = "ADD COLUMNS"
    DROP_COLUMNS = "DROP COLUMNS"
    RENAME_COLUMN = "RENAME COLUMN"
    CHANGE_COLUMN = "CHANGE COLUMN"
    REMOVE_COLUMN_MAPPING = "REMOVE COLUMN MAPPING"
    ADD_CONSTRAINT = "ADD CONSTRAINT"
    DROP_CONSTRAINT = "DROP CONSTRAINT"
    CLUSTER_BY = "CLUSTER BY"
    SET_TABLE_PROPERTIES = "SET TBLPROPERTIES"
    UNSET_TABLE_PROPERTIES = "UNSET TBLPROPERTIES"
    UPGRADE_PROTOCOL = "UPGRADE PROTOCOL"
    DROP_FEATURE = "DROP FEATURE"
    ROW_TRACKING_BACKFILL = "ROW TRACKING BACKFILL"
    ROW_TRACKING_UNBACKFILL = "ROW TRACKING UNBACKFILL"
    DELETION_VECTOR_TOMBSTONES = "Deletion Vector Tombstones"
    DOMAIN_METADATA_CLEANUP = "DOMAIN METADATA CLEANUP"
    EMPTY_COMMIT = "Empty Commit"
    MANUAL_UPDATE = "Manual Update"


WITHOUT_NEW_ROWS = frozenset(
    {
        Operation.DELETE,
        Operation.UPDATE,
        Operation.OPTIMIZE,
        Operation.REORG,
        Operation.RESTORE,
        Operation.CLONE,
        Operation.CONVERT,
    }
)
"""Operations that insert no row: identity columns give nothing out, whatever the files have."""
