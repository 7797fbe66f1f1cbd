"""Changes of metadata that a commit on its way goes behind: features that were turned on.

As delta-spark's conflict checker: what was written without a feature may stand in a table that has
it since. Row tracking is the exception, though delta-spark passes it: the files would have no ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from bayou.protocol.actions import Metadata
from bayou.protocol.schema import StructField, StructType

__all__ = ["only_enables"]

_MODE = "delta.columnMapping.mode"

_ALLOWED: Mapping[str, Callable[[str | None, str], bool]] = {
    "delta.enableDeletionVectors": lambda _, after: after.lower() == "true",
    "delta.checkpointPolicy": lambda _, after: after == "v2",
    "delta.enableInCommitTimestamps": lambda _, after: after.lower() == "true",
    "delta.inCommitTimestampEnablementVersion": lambda before, _: before is None,
    "delta.inCommitTimestampEnablementTimestamp": lambda before, _: before is None,
    _MODE: lambda before, after: before in (None, "none") and after == "name",
    "delta.columnMapping.maxColumnId": lambda *_: True,
}
"""What a property may be changed to, by what it was."""

_COLUMN_IDS = frozenset(
    {
        "delta.columnMapping.id",
        "delta.columnMapping.physicalName",
        "delta.columnMapping.nested.ids",
    }
)


def only_enables(before: Metadata, after: Metadata) -> bool:
    """Whether nothing but features of this kind came between two metaData actions."""
    others = msgspec.structs.replace(
        after, configuration=before.configuration, schema_string=before.schema_string
    )
    if others != before or before.configuration.keys() - after.configuration.keys():
        return False
    changed = {k for k, v in after.configuration.items() if before.configuration.get(k) != v}
    if not all(
        key in _ALLOWED and _ALLOWED[key](before.configuration.get(key), after.configuration[key])
        for key in changed
    ):
        return False
    return before.schema_string == after.schema_string or (
        _MODE in changed and _are_numbered(before.schema_string, after.schema_string)
    )


def _are_numbered(before: str, after: str) -> bool:
    """Whether the columns got ids, and are the same otherwise."""
    old, new = StructType.from_json(before), StructType.from_json(after)
    return [_without_ids(field) for field in old] == [_without_ids(field) for field in new]


def _without_ids(field: StructField) -> StructField:
    kept = {k: v for k, v in field.metadata.items() if k not in _COLUMN_IDS}
    return replace(field, metadata=kept)
