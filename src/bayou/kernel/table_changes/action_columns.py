"""Actions of commits as columns: one row per action, one struct column per kind of action."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.arrays import maps_as_pairs, to_array, to_scalar
from bayou.kernel.checkpoint.schema import METADATA_SCHEMA
from bayou.kernel.scan.scan_file import ADD_TYPE, DELETION_VECTOR_TYPE, adds_to_array
from bayou.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
)


class DeltaAction(StrEnum):
    """Kinds of actions, named as in the log (PROTOCOL.md, Actions).

    Examples:
        >>> commits = table.commit_range_builder(CommitBoundary.at_version(0)).build(engine)
        >>> with commits.actions(engine, {DeltaAction.METADATA}) as batches:
        ...     print(sum(batch.num_rows for batch in batches))
    """

    ADD = "add"
    REMOVE = "remove"
    CDC = "cdc"
    METADATA = "metaData"
    PROTOCOL = "protocol"
    TXN = "txn"
    DOMAIN_METADATA = "domainMetadata"
    COMMIT_INFO = "commitInfo"


_STRING_MAP = pa.map_(pa.string(), pa.string())

_TYPES: dict[DeltaAction, Any] = {
    DeltaAction.ADD: ADD_TYPE,
    DeltaAction.REMOVE: pa.struct(
        [
            pa.field("path", pa.string()),
            pa.field("deletionTimestamp", pa.int64()),
            pa.field("dataChange", pa.bool_()),
            pa.field("extendedFileMetadata", pa.bool_()),
            pa.field("partitionValues", _STRING_MAP),
            pa.field("size", pa.int64()),
            pa.field("stats", pa.string()),
            pa.field("tags", _STRING_MAP),
            pa.field("deletionVector", DELETION_VECTOR_TYPE),
            pa.field("baseRowId", pa.int64()),
            pa.field("defaultRowCommitVersion", pa.int64()),
        ]
    ),
    DeltaAction.CDC: pa.struct(
        [
            pa.field("path", pa.string()),
            pa.field("partitionValues", _STRING_MAP),
            pa.field("size", pa.int64()),
            pa.field("dataChange", pa.bool_()),
            pa.field("tags", _STRING_MAP),
        ]
    ),
    DeltaAction.METADATA: METADATA_SCHEMA.field("metaData").type,
    DeltaAction.PROTOCOL: METADATA_SCHEMA.field("protocol").type,
    DeltaAction.TXN: METADATA_SCHEMA.field("txn").type,
    DeltaAction.DOMAIN_METADATA: METADATA_SCHEMA.field("domainMetadata").type,
    DeltaAction.COMMIT_INFO: pa.struct(
        [
            pa.field("inCommitTimestamp", pa.int64()),
            pa.field("timestamp", pa.int64()),
            pa.field("userId", pa.string()),
            pa.field("userName", pa.string()),
            pa.field("operation", pa.string()),
            pa.field("operationParameters", _STRING_MAP),
            pa.field("readVersion", pa.int64()),
            pa.field("isolationLevel", pa.string()),
            pa.field("isBlindAppend", pa.bool_()),
            pa.field("operationMetrics", _STRING_MAP),
            pa.field("userMetadata", pa.string()),
            pa.field("engineInfo", pa.string()),
            pa.field("txnId", pa.string()),
        ]
    ),
}

_KINDS: dict[type[Any], DeltaAction] = {
    AddFile: DeltaAction.ADD,
    RemoveFile: DeltaAction.REMOVE,
    AddCDCFile: DeltaAction.CDC,
    Metadata: DeltaAction.METADATA,
    Protocol: DeltaAction.PROTOCOL,
    Transaction: DeltaAction.TXN,
    DomainMetadata: DeltaAction.DOMAIN_METADATA,
    CommitInfo: DeltaAction.COMMIT_INFO,
}


def action_schema(kinds: Collection[DeltaAction]) -> pa.Schema:
    """Return the schema: `version`, `timestamp` (ms since the epoch), then the requested kinds."""
    return pa.schema(
        [
            pa.field("version", pa.int64(), False),
            pa.field("timestamp", pa.int64(), False),
            *(pa.field(kind.value, _TYPES[kind]) for kind in DeltaAction if kind in kinds),
        ]
    )


def actions_to_batch(
    actions: Sequence[Action], kinds: Collection[DeltaAction], version: int, timestamp: int
) -> pa.RecordBatch:
    """Convert the actions of the requested kinds to a batch with `action_schema(kinds)`."""
    selected = [(a, kind) for a in actions if (kind := _KINDS.get(type(a))) in kinds]
    schema = action_schema(kinds)
    columns: list[pa.Array[Any]] = [
        pa.repeat(to_scalar(version, pa.int64()), len(selected)),
        pa.repeat(to_scalar(timestamp, pa.int64()), len(selected)),
    ]
    for field in list(schema)[2:]:
        kind = DeltaAction(field.name)
        matches = [a for a, action_kind in selected if action_kind is kind]
        if len(matches) == len(selected):
            columns.append(_struct_array(kind, matches))
            continue
        numbers = iter(range(len(matches)))
        positions = [next(numbers) if action_kind is kind else None for _, action_kind in selected]
        columns.append(_struct_array(kind, matches).take(to_array(positions, pa.int32())))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _struct_array(kind: DeltaAction, actions: Sequence[Any]) -> pa.Array[Any]:
    if kind is DeltaAction.ADD:
        return adds_to_array(actions)
    target = _TYPES[kind]
    if kind is DeltaAction.COMMIT_INFO:
        values = [_commit_info(a.values, target) for a in actions]
    else:
        values = [maps_as_pairs(msgspec.to_builtins(a), target) for a in actions]
    array: pa.Array[Any] = to_array(values, target)
    return array


def _commit_info(values: Any, kind: Any) -> dict[str, Any]:
    return {f.name: _commit_info_value(values.get(f.name), f.type) for f in kind}


def _commit_info_value(value: Any, kind: Any) -> Any:
    """Convert a field of `commitInfo` to the Arrow type `kind`.

    If `kind` is string, a value that isn't a string is converted to JSON. If `kind` is another
    type, a value that doesn't have this type becomes null.
    """
    if value is None:
        return None
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            return None
        return [(k, None if v is None else _to_string(v)) for k, v in value.items()]
    if pa.types.is_string(kind):
        return _to_string(value)
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    fits = type(value) is int and -(2**63) <= value < 2**63
    return value if fits else None


def _to_string(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
