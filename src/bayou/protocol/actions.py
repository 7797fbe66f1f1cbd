"""The actions of a commit and their JSON lines (PROTOCOL.md, Actions).

Unknown fields are ignored on read, as PROTOCOL.md asks; `commitInfo` is kept as it is. Attribute
names are those of the wire, in snake case; `msgspec` renames them.

The change data feed's own columns and property (PROTOCOL.md, Change Data Files).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from bayou.protocol.file_names import canonical_path
from bayou.protocol.json_decoding import JsonDecoder, decode_json
from bayou.protocol.schema import LONG, STRING, TIMESTAMP, StructField, StructType

__all__ = [
    "CHANGE_COLUMNS",
    "CHANGE_TYPE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "DELETE",
    "INSERT",
    "Action",
    "AddCDCFile",
    "AddFile",
    "ChangeType",
    "CheckpointMetadata",
    "CommitInfo",
    "DeletionVectorDescriptor",
    "DomainMetadata",
    "Format",
    "Int32",
    "Int64",
    "Metadata",
    "Protocol",
    "RemoveFile",
    "SidecarFile",
    "Transaction",
    "decode_action",
    "decode_actions",
    "encode_action",
    "encode_actions",
    "is_feed_enabled",
    "reserved_columns",
]


def _always(value: Any) -> Any:
    """A default that is written out all the same: `omit_defaults` leaves out only plain ones."""
    return msgspec.field(default_factory=lambda: value)


Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number of the log: one that doesn't fit isn't an action."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of everything on the wire."""


class DeletionVectorDescriptor(_Wire, frozen=True, kw_only=True):
    """PROTOCOL.md, Deletion Vector Descriptor Schema."""

    storage_type: str
    path_or_inline_dv: str
    offset: Int64 | None = None
    size_in_bytes: Int64
    cardinality: Int64

    @property
    def unique_id(self) -> str:
        """Derived field `uniqueId`: the second part of a logical file's key."""
        text = self.storage_type + self.path_or_inline_dv
        return text if self.offset is None else f"{text}@{self.offset}"


class AddFile(_Wire, frozen=True, kw_only=True):
    """A logical file that is part of the table from this version on (Add File and Remove File)."""

    path: str
    partition_values: dict[str, str | None]
    size: Int64
    modification_time: Int64
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Int64 | None = None
    default_row_commit_version: Int64 | None = None
    clustering_provider: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """(canonical path, dvId), the primary key of reconciliation."""
        dv = self.deletion_vector
        return canonical_path(self.path), None if dv is None else dv.unique_id


class RemoveFile(_Wire, frozen=True, kw_only=True):
    """A logical file that is no longer part of the table (Add File and Remove File)."""

    path: str
    deletion_timestamp: Int64 | None = None
    data_change: bool = _always(True)
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Int64 | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Int64 | None = None
    default_row_commit_version: Int64 | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """(canonical path, dvId), the primary key of reconciliation."""
        dv = self.deletion_vector
        return canonical_path(self.path), None if dv is None else dv.unique_id


class AddCDCFile(_Wire, frozen=True, kw_only=True):
    """A change data file (Add CDC File)."""

    path: str
    partition_values: dict[str, str | None]
    size: Int64
    data_change: bool = _always(False)
    tags: dict[str, str | None] | None = None


class Format(_Wire, frozen=True, kw_only=True):
    """Encoding of the data files (Format Specification); always Parquet today."""

    provider: str = _always("parquet")
    options: dict[str, str] = msgspec.field(default_factory=lambda: {})


class Metadata(_Wire, frozen=True, kw_only=True):
    """The table's metadata (Change Metadata).

    `schema_string` is the schema's JSON text; it is empty where a table has no schema yet.
    """

    id: str
    name: str | None = None
    description: str | None = None
    format: Format = msgspec.field(default_factory=lambda: Format())
    schema_string: str = ""
    partition_columns: list[str] = msgspec.field(default_factory=lambda: [])
    created_time: Int64 | None = None
    configuration: dict[str, str] = msgspec.field(default_factory=lambda: {})


class Protocol(_Wire, frozen=True, kw_only=True):
    """What reader and writer must be able to do (Protocol Evolution)."""

    min_reader_version: Int32
    min_writer_version: Int32
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class Transaction(_Wire, frozen=True, kw_only=True):
    """Progress of an application (Transaction Identifiers). `last_updated` is ms since epoch."""

    app_id: str
    version: Int64
    last_updated: Int64 | None = None


class DomainMetadata(_Wire, frozen=True, kw_only=True):
    """A named configuration of a feature or user (Domain Metadata)."""

    domain: str
    configuration: str
    removed: bool


class SidecarFile(_Wire, frozen=True, kw_only=True):
    """A part of a V2 checkpoint (Sidecar File Information)."""

    path: str
    size_in_bytes: Int64
    modification_time: Int64
    tags: dict[str, str | None] | None = None


class CheckpointMetadata(_Wire, frozen=True, kw_only=True):
    """Describes a V2 checkpoint (Checkpoint Metadata)."""

    version: Int64
    tags: dict[str, str | None] | None = None


class CommitInfo(msgspec.Struct, frozen=True):
    """Provenance of a commit, any JSON object (Commit Provenance Information); kept as it is."""

    values: Mapping[str, Any]

    def get(self, key: str) -> Any:
        """The value under a key such as `operation`, None where there is none."""
        return self.values.get(key)

    def string(self, key: str) -> str | None:
        """The value under a key, None where it isn't a string."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        """The value under a key, None where it isn't a whole number of 64 bits."""
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if -(1 << 63) <= value < 1 << 63 else None


Action: TypeAlias = (
    AddFile
    | RemoveFile
    | AddCDCFile
    | Metadata
    | Protocol
    | Transaction
    | DomainMetadata
    | CommitInfo
    | SidecarFile
    | CheckpointMetadata
)


class _Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line of a commit: an object with one key. All None: an action that we don't know."""

    commit_info: dict[str, Any] | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: Transaction | None = None
    domain_metadata: DomainMetadata | None = None
    add: AddFile | None = None
    remove: RemoveFile | None = None
    cdc: AddCDCFile | None = None
    sidecar: SidecarFile | None = None
    checkpoint_metadata: CheckpointMetadata | None = None

    def action(self) -> Action | None:
        if self.add is not None:
            return self.add
        if self.remove is not None:
            return self.remove
        if self.commit_info is not None:
            return CommitInfo(self.commit_info)
        return (
            self.txn
            or self.meta_data
            or self.protocol
            or self.domain_metadata
            or self.cdc
            or self.sidecar
            or self.checkpoint_metadata
        )


_DECODER = JsonDecoder(_Line)
_ENCODER = msgspec.json.Encoder()
_WIRE_NAMES: dict[type, str] = {
    AddFile: "add",
    RemoveFile: "remove",
    AddCDCFile: "cdc",
    Metadata: "metaData",
    Protocol: "protocol",
    Transaction: "txn",
    DomainMetadata: "domainMetadata",
    SidecarFile: "sidecar",
    CheckpointMetadata: "checkpointMetadata",
}


def encode_action(action: Action) -> bytes:
    """The JSON line of an action, without the newline."""
    if isinstance(action, CommitInfo):
        return _ENCODER.encode({"commitInfo": action.values})
    return _ENCODER.encode({_WIRE_NAMES[type(action)]: action})


def encode_actions(actions: Iterable[Action]) -> bytes:
    """JSON lines, each ended by a newline; how actions travel between processes too."""
    return b"".join(encode_action(action) + b"\n" for action in actions)


def decode_action(line: bytes | str) -> Action | None:
    """The action of a JSON line, None for a kind of action that PROTOCOL.md doesn't name.

    Raises:
        msgspec.DecodeError: not JSON, or not an action (msgspec.ValidationError).
    """
    return _decode_line(line)


def decode_actions(data: bytes, kinds: Collection[type] | None = None) -> Iterator[Action]:
    """The actions of a commit's bytes, in order; empty lines and unknown actions are left out.

    Args:
        data: JSON lines, decoded one by one as they are asked for.
        kinds: types of the actions wanted, None for all. The others are passed over, which takes
            less time; that they are JSON is all that is looked at.

    Raises:
        msgspec.DecodeError: not JSON, or not an action (msgspec.ValidationError).
    """
    decode = _decode_line if kinds is None else _decoding(frozenset(kinds))
    for line in io.BytesIO(data):
        if not line.isspace():
            action = decode(line)
            if action is not None:
                yield action


def _decode_line(line: bytes | str) -> Action | None:
    try:
        return _DECODER.decode(line).action()
    except msgspec.ValidationError:
        found = _without_null_schema(decode_json(line, object))
        if found is None:
            raise
        return msgspec.convert(found, _Line).action()


def _without_null_schema(line: Any) -> dict[str, Any] | None:
    """A line whose metaData has a `schemaString` that is null, without it; else None."""
    metadata = line.get("metaData") if isinstance(line, dict) else None
    if not isinstance(metadata, dict) or metadata.get("schemaString", "") is not None:
        return None
    return {"metaData": {k: v for k, v in metadata.items() if k != "schemaString"}}


@cache
def _decoding(kinds: frozenset[type]) -> Callable[[bytes], Action | None]:
    """`_decode_line` for some kinds of actions."""
    names = {"commitInfo": CommitInfo, **{name: kind for kind, name in _WIRE_NAMES.items()}}
    fields = [
        (field.name, field.type, None)
        for field in msgspec.structs.fields(_Line)
        if names[field.encode_name] in kinds
    ]
    decoder = JsonDecoder(msgspec.defstruct("_Line", fields, rename="camel"))

    def decode(line: bytes) -> Action | None:
        if Metadata in kinds and b'"schemaString":null' in line:
            return _decode_line(line)
        found = msgspec.structs.astuple(decoder.decode(line))
        value: Any = next((v for v in found if v is not None), None)
        return CommitInfo(value) if isinstance(value, dict) else value

    return decode


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
