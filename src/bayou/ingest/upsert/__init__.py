"""Upserts, which keep one row for each key. Records are ordered and merged into the table.

`bayou.ingest.upsert_order` defines the order of a key's records, and finds the last record.
"""

from bayou.ingest.upsert.change_decoder import Change, ChangeReader, key_columns
from bayou.ingest.upsert.deleted_keys import DeletedKeys
from bayou.ingest.upsert.merging import UPSERTS, UpsertResult, UpsertTable
from bayou.ingest.upsert_order import (
    BARE,
    DELETED,
    FORCED,
    SUPERSEDED,
    UpsertKeys,
    key_numbers,
    last_of_each_key,
)

__all__ = [
    "BARE",
    "DELETED",
    "FORCED",
    "SUPERSEDED",
    "UPSERTS",
    "Change",
    "ChangeReader",
    "DeletedKeys",
    "UpsertKeys",
    "UpsertResult",
    "UpsertTable",
    "key_columns",
    "key_numbers",
    "last_of_each_key",
]
