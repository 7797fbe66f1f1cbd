"""What a commit says it did."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Operation"]


class Operation(StrEnum):
    """`commitInfo.operation`, in delta-spark's words."""

    CREATE_TABLE = "CREATE TABLE"
    WRITE = "WRITE"
    STREAMING_UPDATE = "STREAMING UPDATE"
    DELETE = "DELETE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"
    OPTIMIZE = "OPTIMIZE"
    RESTORE = "RESTORE"
    VACUUM_START = "VACUUM START"
    VACUUM_END = "VACUUM END"
    ADD_COLUMNS = "ADD COLUMNS"
    ADD_CONSTRAINT = "ADD CONSTRAINT"
    SET_TABLE_PROPERTIES = "SET TBLPROPERTIES"
    UNSET_TABLE_PROPERTIES = "UNSET TBLPROPERTIES"
    UPGRADE_PROTOCOL = "UPGRADE PROTOCOL"
    MANUAL_UPDATE = "Manual Update"
