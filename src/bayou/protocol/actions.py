"""The actions of a commit, their JSON lines, and the columns of the change data feed.

See PROTOCOL.md, Actions and Change Data Files. Unknown fields of an action are ignored, as the
specification requires, but `commitInfo` keeps all of its fields.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from bayou.json_decoding import JsonDecoder, decode_json
from bayou.protocol.file_names import canonical_path
from bayou.protocol.schema import LONG, STRING, TIMESTAMP, StructField, StructType


def _always(value: Any) -> Any:
    """Return a field with the default `value`; the field is encoded even if it has this default."""
    return msgspec.field(default_factory=lambda: value)


Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A 64-bit integer in an action. An action with a number out of this range is invalid."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class DeletionVectorDescriptor(_Wire, frozen=True, kw_only=True):
    """Location, size and cardinality of a deletion vector (Deletion Vector Descriptor Schema)."""

    storage_type: str
    path_or_inline_dv: str
    offset: Int64 | None = None
    size_in_bytes: Int64
    cardinality: Int64

    @property
    def unique_id(self) -> str:
        """The derived field `uniqueId`; a logical file is identified by its path and this id."""
        unique_id = self.storage_type + self.path_or_inline_dv
        return unique_id if self.offset is None else f"{unique_id}@{self.offset}"


class AddFile(_Wire, frozen=True, kw_only=True):
    """The `add` action: adds a logical file to the table (Add File and Remove File)."""

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
        """Primary key of action reconciliation: canonical path and deletion vector id."""
        dv = self.deletion_vector
        return canonical_path(self.path), None if dv is None else dv.unique_id


class RemoveFile(_Wire, frozen=True, kw_only=True):
    """The `remove` action: removes a logical file from the table (Add File and Remove File)."""

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
        """Primary key of action reconciliation: canonical path and deletion vector id."""
        dv = self.deletion_vector
        return canonical_path(self.path), None if dv is None else dv.unique_id


class AddCDCFile(_Wire, frozen=True, kw_only=True):
    """The `cdc` action: a change data file of the commit (Add CDC File)."""

    path: str
    partition_values: dict[str, str | None]
    size: Int64
    data_change: bool = _always(False)
    tags: dict[str, str | None] | None = None


class Format(_Wire, frozen=True, kw_only=True):
    """The format of the data files (Format Specification); always Parquet."""

    provider: str = _always("parquet")
    options: dict[str, str] = msgspec.field(default_factory=lambda: {})


class Metadata(_Wire, frozen=True, kw_only=True):
    """The `metaData` action: schema, partition columns and properties (Change Metadata).

    `schema_string` is the schema as JSON. It is empty if the table has no schema yet.
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
    """The `protocol` action: what readers and writers must support (Protocol Evolution)."""

    min_reader_version: Int32
    min_writer_version: Int32
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class Transaction(_Wire, frozen=True, kw_only=True):
    """The `txn` action: the last version that an application committed (Transaction Identifiers).

    The application chooses `version`, such as the id of a micro-batch. `last_updated` is in ms
    since the epoch.
    """

    app_id: str
    version: Int64
    last_updated: Int64 | None = None


class DomainMetadata(_Wire, frozen=True, kw_only=True):
    """The `domainMetadata` action: the configuration of a metadata domain (Domain Metadata)."""

    domain: str
    configuration: str
    removed: bool


class SidecarFile(_Wire, frozen=True, kw_only=True):
    """A sidecar file of a V2 checkpoint (Sidecar File Information)."""

    path: str
    size_in_bytes: Int64
    modification_time: Int64
    tags: dict[str, str | None] | None = None


class CheckpointMetadata(_Wire, frozen=True, kw_only=True):
    """The `checkpointMetadata` action of a V2 checkpoint (Checkpoint Metadata)."""

    version: Int64
    tags: dict[str, str | None] | None = None


class CommitInfo(msgspec.Struct, frozen=True):
    """The `commitInfo` action: provenance of a commit (Commit Provenance Information).

    `values` is the JSON object of the log, with all of its fields.
    """

    values: Mapping[str, Any]

    def get(self, key: str) -> Any:
        """Return the value of a key such as `operation`; None if the key is missing."""
        return self.values.get(key)

    def string(self, key: str) -> str | None:
        """Return the value of a key if it is a string, else None."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        """Return the value of a key if it is a 64-bit integer, else None."""
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
    """A line of a commit: one field is set, or none if the action is unknown."""

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
    """Encode an action as a line of JSON, without the newline."""
    if isinstance(action, CommitInfo):
        return _ENCODER.encode({"commitInfo": action.values})
    return _ENCODER.encode({_WIRE_NAMES[type(action)]: action})


def encode_actions(actions: Iterable[Action]) -> bytes:
    """Encode actions as in a commit file: one line of JSON for each action.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> message = encode_actions(adds)  # from a worker to the process that commits
    """
    return b"".join(encode_action(action) + b"\n" for action in actions)


def decode_action(line: bytes | str) -> Action | None:
    """Decode a line of a commit file; None for an action that PROTOCOL.md doesn't define.

    Raises:
        msgspec.DecodeError: the line isn't JSON.
        msgspec.ValidationError: the line isn't an action.
    """
    return _decode_line(line)


def decode_actions(data: bytes, kinds: Collection[type] | None = None) -> Iterator[Action]:
    """Decode the actions of a commit file, in order; skip empty lines and unknown actions.

    Args:
        data: JSON lines; a line is decoded when the iterator reaches it.
        kinds: types of the actions to return; None for all types. For an action of another type,
            only the JSON syntax of its line is checked, which is faster than decoding the action.

    Raises:
        msgspec.DecodeError: a line isn't JSON.
        msgspec.ValidationError: a line isn't an action.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> same = list(decode_actions(encode_actions(adds)))
    """
    decode = _decode_line if kinds is None else _decoder_of(frozenset(kinds))
    for line in io.BytesIO(data):
        if not line.isspace():
            action = decode(line)
            if action is not None:
                yield action


def _decode_line(line: bytes | str) -> Action | None:
    try:
        return _DECODER.decode(line).action()
    except msgspec.ValidationError:
        fixed = _without_null_schema(decode_json(line, object))
        if fixed is None:
            raise
        return msgspec.convert(fixed, _Line).action()


def _without_null_schema(line: Any) -> dict[str, Any] | None:
    metadata = line.get("metaData") if isinstance(line, dict) else None
    if not isinstance(metadata, dict) or metadata.get("schemaString", "") is not None:
        return None
    return {"metaData": {k: v for k, v in metadata.items() if k != "schemaString"}}


@cache
def _decoder_of(kinds: frozenset[type]) -> Callable[[bytes], Action | None]:
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
        values = msgspec.structs.astuple(decoder.decode(line))
        value: Any = next((v for v in values if v is not None), None)
        return CommitInfo(value) if isinstance(value, dict) else value

    return decode


UserMetadata: TypeAlias = str | Mapping[str, object]
"""User metadata of a commit.

A string is written as the field `userMetadata` of `commitInfo`. A mapping from field names to JSON
values is added to `commitInfo`. Fields that the writer sets can't be replaced.
"""


def commit_info(
    *,
    timestamp: int,
    operation: str,
    operation_parameters: Mapping[str, object],
    engine_info: str,
    txn_id: str,
    is_blind_append: bool,
    read_version: int | None = None,
    isolation_level: str = "Serializable",
    operation_metrics: Mapping[str, object] | None = None,
    user_metadata: UserMetadata | None = None,
    in_commit_timestamp: int | None = None,
    tags: Mapping[str, str] | None = None,
) -> CommitInfo:
    """Build the `commitInfo` action as delta-spark writes it (Commit Provenance Information).

    Args:
        timestamp: ms since the epoch.
        txn_id: unique id of the transaction. A writer recognizes its own commit by this id.
        is_blind_append: whether the commit only adds files, and the transaction read no file.
        operation_metrics: metrics by name. Numbers are written as strings. If None,
            `operationMetrics` isn't written.
    """
    values: dict[str, Any] = {}
    if in_commit_timestamp is not None:
        values["inCommitTimestamp"] = in_commit_timestamp
    values["timestamp"] = timestamp
    values["operation"] = operation
    values["operationParameters"] = operation_parameters_in_log(operation_parameters)
    if read_version is not None:
        values["readVersion"] = read_version
    values["isolationLevel"] = isolation_level
    values["isBlindAppend"] = is_blind_append
    if operation_metrics is not None:
        values["operationMetrics"] = {key: str(value) for key, value in operation_metrics.items()}
    if isinstance(user_metadata, str):
        values["userMetadata"] = user_metadata
    if tags:
        values["tags"] = dict(tags)
    values["engineInfo"] = engine_info
    values["txnId"] = txn_id
    if user_metadata is not None and not isinstance(user_metadata, str):
        values |= {key: entry for key, entry in user_metadata.items() if key not in values}
    return CommitInfo(values)


def operation_parameters_in_log(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return operation parameters as in the log: lists and mappings are encoded as JSON text."""
    return {
        key: value
        if value is None or isinstance(value, str | int | float)
        else msgspec.json.encode(value).decode()
        for key, value in parameters.items()
    }


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
"""Columns that the change data feed adds to the table's columns.

Change data files contain only the first of these columns, `_change_type`.
"""


def is_change_data_feed_enabled(configuration: Mapping[str, str]) -> bool:
    """Whether the table properties enable the change data feed."""
    return configuration.get("delta.enableChangeDataFeed", "").strip().lower() == "true"


def reserved_columns(schema: StructType) -> tuple[str, ...]:
    """Return the top-level columns with names that the change data feed reserves.

    Names are compared case-insensitively.
    """
    return tuple(name for name in schema.names if name.lower() in CHANGE_COLUMNS.names)
