"""The columns of a checkpoint (PROTOCOL.md, Checkpoint Schema)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.arrays import maps_as_pairs
from bayou.kernel.scan.scan_file import ADD_TYPE, DELETION_VECTOR_TYPE, file_actions_to_array
from bayou.protocol.actions import Action, RemoveFile

_STRING_MAP = pa.map_(pa.string(), pa.string())
_STRINGS = pa.list_(pa.field("element", pa.string()))

REMOVE_TYPE = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("deletionTimestamp", pa.int64()),
        pa.field("dataChange", pa.bool_()),
        pa.field("extendedFileMetadata", pa.bool_()),
        pa.field("partitionValues", _STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("deletionVector", DELETION_VECTOR_TYPE),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
    ]
)
METADATA_SCHEMA = pa.schema(
    [
        pa.field(
            "protocol",
            pa.struct(
                [
                    pa.field("minReaderVersion", pa.int32()),
                    pa.field("minWriterVersion", pa.int32()),
                    pa.field("readerFeatures", _STRINGS),
                    pa.field("writerFeatures", _STRINGS),
                ]
            ),
        ),
        pa.field(
            "metaData",
            pa.struct(
                [
                    pa.field("id", pa.string()),
                    pa.field("name", pa.string()),
                    pa.field("description", pa.string()),
                    pa.field(
                        "format",
                        pa.struct(
                            [pa.field("provider", pa.string()), pa.field("options", _STRING_MAP)]
                        ),
                    ),
                    pa.field("schemaString", pa.string()),
                    pa.field("partitionColumns", _STRINGS),
                    pa.field("createdTime", pa.int64()),
                    pa.field("configuration", _STRING_MAP),
                ]
            ),
        ),
        pa.field(
            "txn",
            pa.struct(
                [
                    pa.field("appId", pa.string()),
                    pa.field("version", pa.int64()),
                    pa.field("lastUpdated", pa.int64()),
                ]
            ),
        ),
        pa.field(
            "domainMetadata",
            pa.struct(
                [
                    pa.field("domain", pa.string()),
                    pa.field("configuration", pa.string()),
                    pa.field("removed", pa.bool_()),
                ]
            ),
        ),
    ]
)
"""Schema of the checkpoint's columns for non-file actions."""

SIDECAR_SCHEMA = pa.schema(
    [
        pa.field(
            "checkpointMetadata",
            pa.struct([pa.field("version", pa.int64()), pa.field("tags", _STRING_MAP)]),
        ),
        pa.field(
            "sidecar",
            pa.struct(
                [
                    pa.field("path", pa.string()),
                    pa.field("sizeInBytes", pa.int64()),
                    pa.field("modificationTime", pa.int64()),
                    pa.field("tags", _STRING_MAP),
                ]
            ),
        ),
    ]
)
"""Schema of the columns that only V2 checkpoints have."""

CHECKPOINT_SCHEMA = pa.schema(
    [*METADATA_SCHEMA, pa.field("add", ADD_TYPE), pa.field("remove", REMOVE_TYPE)]
)


def actions_to_array(name: str, actions: Sequence[Action]) -> pa.StructArray:
    """Convert actions of one kind to the checkpoint's column `name`, such as `metaData`.

    Only for non-file actions: values are converted one by one, which is slow for many actions.
    """
    kind: Any = METADATA_SCHEMA.field(name).type
    values = [maps_as_pairs(msgspec.to_builtins(a), kind) for a in actions]
    array: Any = pa.array(values, kind)
    assert isinstance(array, pa.StructArray)
    return array


def removes_to_array(removes: Sequence[RemoveFile]) -> pa.StructArray:
    """Convert tombstones to a struct array of `REMOVE_TYPE`."""
    return file_actions_to_array(removes, REMOVE_TYPE)
