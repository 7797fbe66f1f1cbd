"""The schema tracking log of a stream, in delta-spark's format.

The log is the folder `_schema_log_<table id>[_<streamingSourceTrackingId>]` below
`schemaTrackingLocation`. Each entry is a file whose name is the number of the entry, from 0. The
file has the line `v1`, then a JSON object with the metadata that the stream uses.

`schemaTrackingLocation` must be below the query's checkpoint. Otherwise two queries could use the
same log, or a new query could use an earlier query's log. `check_schema_locations` checks the
location when a query starts.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import Any

from bayou.errors import FileMissingError, StreamingSourceError
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_changes.schema_changes import partition_schema
from bayou.protocol.actions import Metadata, Protocol, decode_action, encode_action
from bayou.protocol.schema import SchemaJsonError, StructType
from bayou.spark.hooks.requests import StreamWriteRequest
from bayou.spark.jvm.streaming import streaming_options
from bayou.spark.streaming.errors import streaming_error

_VERSION_LINE = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLogEntry:
    """An entry of a schema log: the metadata that a stream uses from a table version on.

    Attributes:
        table_id: `metaData.id` of the table.
        version: the table version that has this metadata.
        data_schema: JSON of the schema with all columns.
        partition_schema: JSON of the schema with only the partition columns.
        source_path: the source's folder in the checkpoint, `<checkpoint>/sources/<number>`.
        configuration: the table's properties; None in old logs.
        protocol: JSON line of the protocol action; None in old logs.
        previous: `previousMetadataSeqNum`; None if the entry replaces no other entries. An entry
            can replace the entries directly before it. `previous` is the number of the last entry
            that isn't replaced.
    """

    table_id: str
    version: int
    data_schema: str
    partition_schema: str
    source_path: str
    configuration: dict[str, str] | None = None
    protocol: str | None = None
    previous: int | None = None

    @classmethod
    def of(
        cls,
        version: int,
        metadata: Metadata,
        protocol: Protocol,
        source_path: str,
        previous: int | None = None,
    ) -> SchemaLogEntry:
        return cls(
            table_id=metadata.id,
            version=version,
            data_schema=StructType.from_json(metadata.schema_string).to_json(),
            partition_schema=partition_schema(metadata).to_json(),
            source_path=source_path,
            configuration=dict(metadata.configuration),
            protocol=encode_action(protocol).decode(),
            previous=previous,
        )

    def metadata(self, current: Metadata) -> Metadata:
        """Return a copy of `current` with the schema and the table properties of the entry.

        An entry of an older writer has no properties. In this case, the copy has the properties of
        `current`.
        """
        partitions = StructType.from_json(self.partition_schema)
        known = current.configuration if self.configuration is None else self.configuration
        return Metadata(
            id=current.id,
            name=current.name,
            description=current.description,
            format=current.format,
            schema_string=self.data_schema,
            partition_columns=list(partitions.names),
            created_time=current.created_time,
            configuration=dict(known),
        )

    def protocol_action(self, current: Protocol) -> Protocol:
        """Return the entry's protocol; `current` if the entry has no protocol, as in old logs."""
        action = None if self.protocol is None else decode_action(self.protocol)
        return action if isinstance(action, Protocol) else current

    def to_json(self) -> str:
        """Return the entry as JSON, with delta-spark's fields in delta-spark's order.

        Fields that are None are omitted.
        """
        fields: dict[str, Any] = {
            "tableId": self.table_id,
            "deltaCommitVersion": self.version,
            "dataSchemaJson": self.data_schema,
            "partitionSchemaJson": self.partition_schema,
            "sourceMetadataPath": self.source_path,
            "tableConfigurations": self.configuration,
            "protocolJson": self.protocol,
            "previousMetadataSeqNum": self.previous,
        }
        present = {k: v for k, v in fields.items() if v is not None}
        return json.dumps(present, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> SchemaLogEntry:
        """Parse an entry from JSON.

        Raises:
            ValueError: the string isn't the JSON of an entry.
        """
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError("not an object")  # noqa: TRY004  # like malformed JSON
        try:
            entry = cls(
                table_id=data["tableId"],
                version=int(data["deltaCommitVersion"]),
                data_schema=data["dataSchemaJson"],
                partition_schema=data["partitionSchemaJson"],
                source_path=data["sourceMetadataPath"],
                configuration=data.get("tableConfigurations"),
                protocol=data.get("protocolJson"),
                previous=data.get("previousMetadataSeqNum"),
            )
            StructType.from_json(entry.data_schema)
            StructType.from_json(entry.partition_schema)
        except (KeyError, TypeError, SchemaJsonError) as error:
            raise ValueError(f"{error}") from error
        return entry


class SchemaLog:
    """The schema tracking log of one stream.

    Args:
        location: `schemaTrackingLocation`.
        state: the state of any version of the table; only the table's path and id are used.
        tracking_id: `streamingSourceTrackingId`; None if not set.

    Attributes:
        root: the resolved `schemaTrackingLocation`.
        folder: the log's folder.
        number: number of the current entry; -1 for an empty log.
        current: the last entry that this object has read or written; None for an empty log.
    """

    def __init__(
        self, engine: Engine, location: str, state: TableState, tracking_id: str | None
    ) -> None:
        self._engine = engine
        self._table = state.path
        root = engine.files.resolve_path(location)
        suffix = "" if tracking_id is None else f"_{tracking_id}"
        self.root = root
        self.folder = f"{root}/_schema_log_{state.table_id}{suffix}"
        numbers = self._numbers()
        self.number = numbers[-1] if numbers else -1
        self.current = self._read(self.number) if numbers else None
        if self.current is not None and self.current.table_id != state.table_id:
            raise streaming_error(
                "DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID",
                f"Schema log {self.folder}: it belongs to a table with id {self.current.table_id}, "
                f"but the id of {state.path} is {state.table_id}. Use another "
                "schemaTrackingLocation.",
                table=state.path,
            )

    @property
    def previous(self) -> SchemaLogEntry | None:
        """The entry that was valid before the current entry; None if there is no such entry.

        Entries that the current entry replaces are skipped.
        """
        number = self._previous_number()
        return self._read(number) if number in self._numbers() else None

    def write(self, entry: SchemaLogEntry) -> None:
        """Append an entry, unless it equals the current entry.

        Raises:
            StreamingSourceError: another stream has written to the log.
        """
        if entry == self.current:
            return
        self._engine.files.mkdirs(self.folder)
        data = f"{_VERSION_LINE}\n{entry.to_json()}".encode()
        number = self.number + 1
        if not self._engine.files.put_if_absent(f"{self.folder}/{number}", data):
            raise streaming_error(
                "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT",
                f"Schema log {self.folder}: entry {number} already exists, because another stream "
                f"of {self._table} uses the same log. Set a separate schemaTrackingLocation or "
                "streamingSourceTrackingId for each stream.",
                table=self._table,
            )
        self.number, self.current = number, entry

    def previous_for_replacement(self) -> int | None:
        """Return `SchemaLogEntry.previous` for a new entry that replaces the current entry.

        If the current entry also replaces entries, the result is `previous` of the current entry.
        Otherwise the result is the number of the current entry minus 1. If the log is empty, the
        result is None.
        """
        return None if self.current is None else self._previous_number()

    def _previous_number(self) -> int:
        if self.current is not None and self.current.previous is not None:
            return self.current.previous
        return self.number - 1

    def _numbers(self) -> list[int]:
        try:
            with self._engine.files.list_from(f"{self.folder}/0") as files:
                names = [f.path.rpartition("/")[2] for f in files]
        except FileMissingError:
            return []
        return sorted(int(name) for name in names if name.isdecimal())

    def _read(self, number: int) -> SchemaLogEntry:
        path = f"{self.folder}/{number}"
        with self._engine.files.read_files([ByteRange(path=path)]) as contents:
            text = bytes(next(contents)).decode(errors="replace")
        first_line, _, content = text.partition("\n")
        if first_line.strip() != _VERSION_LINE:
            raise self._invalid_entry(path, f"its first line is {first_line[:20]!r}")
        try:
            return SchemaLogEntry.from_json(content.partition("\n")[0])
        except ValueError as error:
            raise self._invalid_entry(path, str(error)) from error

    def _invalid_entry(self, path: str, reason: str) -> StreamingSourceError:
        return streaming_error(
            "DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED",
            f"Schema log entry {path}: it can't be read: {reason}. Use another "
            "schemaTrackingLocation.",
            table=self._table,
        )


_ALLOW_OUTSIDE_CHECKPOINT = (
    "spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation"
)
_DEFAULT_CHECKPOINT = "spark.sql.streaming.checkpointLocation"


def check_schema_locations(request: StreamWriteRequest) -> Any:
    """Handler of the hook `query_start`: check that schema logs are below the query's checkpoint.

    Returns NotImplemented, so that the query starts. Under Spark Connect, nothing is checked.

    Raises:
        StreamingSourceError: a schema log isn't below the checkpoint, and the session's conf
            doesn't allow this.
    """
    if request.connect:
        return NotImplemented
    conf = request.spark.conf
    sources = streaming_options(request.df, "delta", "schemaTrackingLocation", "path")
    for location, path in sources:
        if location is None:
            continue
        table = path or ""
        if conf.get(_ALLOW_OUTSIDE_CHECKPOINT, "false").lower() == "true":
            break
        options = {key.lower(): value for key, value in request.options.items()}
        checkpoint = options.get("checkpointlocation") or conf.get(_DEFAULT_CHECKPOINT, None)
        if checkpoint is None or not _normalized(location).startswith(
            f"{_normalized(checkpoint)}/"
        ):
            raise streaming_error(
                "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT",
                f"Table {table}: the stream's schemaTrackingLocation {location} isn't below the "
                f"query's checkpointLocation ({checkpoint or 'not set'}). Use a folder below it, "
                f"such as {checkpoint or '<checkpointLocation>'}/schemas.",
                table=table,
            )
    return NotImplemented


def _normalized(location: str) -> str:
    """Normalize a path for comparisons, and remove the scheme `file:`."""
    path = posixpath.normpath(location.removeprefix("file:"))
    return re.sub("^/+", "/", path)
