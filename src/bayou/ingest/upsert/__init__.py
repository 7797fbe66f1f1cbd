"""One row for each key: records in the order that decides, put into a table by MERGE."""

from bayou.ingest.upsert.changes import Change, ChangeReader
from bayou.ingest.upsert.deleted_keys import DeletedKeys
from bayou.ingest.upsert.merging import UpsertOutcome, UpsertTable
from bayou.ingest.upsert_keys import (
    DELETED,
    FORCED,
    UpsertKeys,
    key_numbers,
    last_of_each_key,
)

__all__ = [
    "DELETED",
    "FORCED",
    "Change",
    "ChangeReader",
    "DeletedKeys",
    "UpsertKeys",
    "UpsertOutcome",
    "UpsertTable",
    "key_numbers",
    "last_of_each_key",
]
