"""What a commit says it did."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Operation"]


class Operation(StrEnum):
    """`commitInfo.operation`, in delta-spark's words."""

    CREATE_TABLE = "CREATE TABLE"
    WRITE = "WRITE"
    STREAMING_UPDATE = "STREAMING UPDATE"
    ADD_COLUMNS = "ADD COLUMNS"
    SET_TABLE_PROPERTIES = "SET TBLPROPERTIES"
    MANUAL_UPDATE = "Manual Update"
