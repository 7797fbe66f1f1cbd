"""The names of operations in `commitInfo`."""

from __future__ import annotations

from enum import StrEnum


class Operation(StrEnum):
    """Values of `commitInfo.operation`, named as in delta-spark.

    Examples:
        >>> builder = snapshot.build_update_table_transaction("example/1.0", Operation.WRITE)
        >>> print(Operation.MERGE.value)
    """

    CREATE_TABLE = "CREATE TABLE"
    REPLACE_TABLE = "REPLACE TABLE"
    CREATE_OR_REPLACE_TABLE = "CREATE OR REPLACE TABLE"
    CREATE_TABLE_AS_SELECT = "CREATE TABLE AS SELECT"
    REPLACE_TABLE_AS_SELECT = "REPLACE TABLE AS SELECT"
    CREATE_OR_REPLACE_TABLE_AS_SELECT = "CREATE OR REPLACE TABLE AS SELECT"
    WRITE = "WRITE"
    STREAMING_UPDATE = "STREAMING UPDATE"
    DELETE = "DELETE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"
    OPTIMIZE = "OPTIMIZE"
    REORG = "REORG"
    RESTORE = "RESTORE"
    TRUNCATE = "TRUNCATE"
    CLONE = "CLONE"
    CONVERT = "CONVERT"
    VACUUM_START = "VACUUM START"
    VACUUM_END = "VACUUM END"
    ADD_COLUMNS = "ADD COLUMNS"
    DROP_COLUMNS = "DROP COLUMNS"
    RENAME_COLUMN = "RENAME COLUMN"
    CHANGE_COLUMN = "CHANGE COLUMN"
    REPLACE_COLUMNS = "REPLACE COLUMNS"
    REMOVE_COLUMN_MAPPING = "REMOVE COLUMN MAPPING"
    ADD_CONSTRAINT = "ADD CONSTRAINT"
    DROP_CONSTRAINT = "DROP CONSTRAINT"
    CLUSTER_BY = "CLUSTER BY"
    SET_TABLE_PROPERTIES = "SET TBLPROPERTIES"
    UNSET_TABLE_PROPERTIES = "UNSET TBLPROPERTIES"
    UPGRADE_UNIFORM = "REORG TABLE UPGRADE UNIFORM"
    UPGRADE_PROTOCOL = "UPGRADE PROTOCOL"
    DROP_FEATURE = "DROP FEATURE"
    ROW_TRACKING_BACKFILL = "ROW TRACKING BACKFILL"
    ROW_TRACKING_UNBACKFILL = "ROW TRACKING UNBACKFILL"
    DELETION_VECTOR_TOMBSTONES = "Deletion Vector Tombstones"
    DOMAIN_METADATA_CLEANUP = "DOMAIN METADATA CLEANUP"
    EMPTY_COMMIT = "Empty Commit"
    MANUAL_UPDATE = "Manual Update"


OPERATIONS_WITHOUT_INSERTS = frozenset(
    {
        Operation.DELETE,
        Operation.UPDATE,
        Operation.OPTIMIZE,
        Operation.REORG,
        Operation.RESTORE,
        Operation.TRUNCATE,
        Operation.CLONE,
        Operation.CONVERT,
    }
)
"""Operations that insert no rows, and therefore generate no identity values."""
