"""The change data feed's own columns and property (PROTOCOL.md, Change Data Files)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from bayou.protocol.schema import LONG, STRING, TIMESTAMP, StructField, StructType

__all__ = [
    "CHANGE_COLUMNS",
    "CHANGE_TYPE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "DELETE",
    "INSERT",
    "ChangeType",
    "is_feed_enabled",
    "reserved_columns",
]

ChangeType: TypeAlias = Literal["insert", "delete", "update_preimage", "update_postimage"]

INSERT: ChangeType = "insert"
DELETE: ChangeType = "delete"

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

CHANGE_COLUMNS = StructType(
    (
        StructField(name=CHANGE_TYPE, data_type=STRING),
        StructField(name=COMMIT_VERSION, data_type=LONG),
        StructField(name=COMMIT_TIMESTAMP, data_type=TIMESTAMP),
    )
)
"""What a row of changes has besides the table's columns. Only the first stands in files."""


def is_feed_enabled(configuration: Mapping[str, str]) -> bool:
    """Whether table properties have changes recorded."""
    return configuration.get("delta.enableChangeDataFeed", "").strip().lower() == "true"


def reserved_columns(schema: StructType) -> tuple[str, ...]:
    """Top-level columns of a schema whose names belong to the feed, in whatever case."""
    return tuple(name for name in schema.names if name.lower() in CHANGE_COLUMNS.names)
