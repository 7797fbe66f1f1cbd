"""The schema log of a stream, in delta-spark's format: the metadata that its rows are read with.

A folder `_schema_log_<table id>` (behind it `_<streamingSourceTrackingId>`, where set) below
`schemaTrackingLocation`, with a file for each entry, numbered from 0: a line `v1`, then an object.

Where streams keep the log of their schema: below the checkpoint of their query.

Elsewhere it would outlive the query, or serve two; delta-spark refuses it when a query starts,
whatever its sink, and so does an enabled session.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from bayou.errors import FileMissingError, StreamingSourceError
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_changes.schema_changes import partition_schema
from bayou.protocol.actions import Metadata, Protocol, decode_action, encode_action
from bayou.protocol.schema import SchemaJsonError, StructType
from bayou.spark.hooks.requests import StreamWriteRequest
from bayou.spark.streaming.errors import refusal

__all__ = ["SchemaLog", "SchemaLogEntry", "check_schema_locations"]


_VERSION_LINE = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLogEntry:
    """Metadata that a stream reads with from a version on.

    Attributes:
        table_id: of the table.
        version: the commit up to which the stream knows of changes.
        data_schema: JSON of all columns.
        partition_schema: JSON of the partition columns.
        source_path: the source's folder in the checkpoint, `<checkpoint>/sources/<number>`.
        configuration: the table's properties; None in old logs.
        protocol: JSON line of the protocol action; None in old logs.
        previous: number of the entry before this one, where that isn't the one before in the log.
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
        """An entry for metadata and protocol that hold at a version."""
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
        """The table's metadata as it was, what the entry doesn't say taken from now."""
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
        """The protocol as it was, that of now where the entry doesn't say."""
        action = None if self.protocol is None else decode_action(self.protocol)
        return action if isinstance(action, Protocol) else current

    def to_json(self) -> str:
        """The object, fields in delta-spark's order, those without a value left out."""
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
        """The inverse of `to_json`.

        Raises:
            ValueError: not such an object.
        """
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError("not an object")  # noqa: TRY004  # what broken JSON raises too
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
    """The entries of one stream's log; it remembers the last one that it has read or written.

    Args:
        engine: reaches the folder.
        location: `schemaTrackingLocation`.
        state: a version of the table.
        tracking_id: `streamingSourceTrackingId`.
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
            raise refusal(
                "DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID",
                f"The schema log {self.folder} belongs to the table with id "
                f"{self.current.table_id}, and {state.path} has the id {state.table_id}. Choose "
                "another schemaTrackingLocation.",
                table=state.path,
            )

    @property
    def previous(self) -> SchemaLogEntry | None:
        """The entry before the current one."""
        number = self._previous_number()
        return self._read(number) if number in self._numbers() else None

    def write(self, entry: SchemaLogEntry) -> None:
        """Put an entry behind the current one; one that says the same isn't written again.

        Raises:
            StreamingSourceError: another stream has written to the log.
        """
        if entry == self.current:
            return
        self._engine.files.mkdirs(self.folder)
        data = f"{_VERSION_LINE}\n{entry.to_json()}".encode()
        number = self.number + 1
        if not self._engine.files.put_if_absent(f"{self.folder}/{number}", data):
            raise refusal(
                "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT",
                f"Entry {number} of the schema log {self.folder} is there already: another stream "
                f"of {self._table} uses it. Give each stream its own schemaTrackingLocation or "
                "streamingSourceTrackingId.",
                table=self._table,
            )
        self.number, self.current = number, entry

    def previous_for_replacement(self) -> int | None:
        """What an entry that replaces the current one names as its `previous`."""
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
        first, _, rest = text.partition("\n")
        if first.strip() != _VERSION_LINE:
            raise self._broken(path, f"its first line is {first[:20]!r}")
        try:
            return SchemaLogEntry.from_json(rest.partition("\n")[0])
        except ValueError as error:
            raise self._broken(path, str(error)) from error

    def _broken(self, path: str, why: str) -> StreamingSourceError:
        return refusal(
            "DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED",
            f"The entry {path} of the schema log can't be read: {why}. Choose another "
            "schemaTrackingLocation.",
            table=self._table,
        )


_ANYWHERE = "spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


def check_schema_locations(request: StreamWriteRequest) -> Any:
    """Refuse `schemaTrackingLocation` outside of the checkpoint; declines.

    Raises:
        StreamingSourceError: DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT.
    """
    if request.connect:
        return NotImplemented
    conf = request.spark.conf
    for location, table in _schema_locations(request.df):
        if conf.get(_ANYWHERE, "false").lower() == "true":
            break
        given = {key.lower(): value for key, value in request.options.items()}
        checkpoint = given.get("checkpointlocation") or conf.get(_CHECKPOINTS, None)
        if checkpoint is None or not _plain(location).startswith(f"{_plain(checkpoint)}/"):
            raise refusal(
                "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT",
                f"The schemaTrackingLocation {location} of a stream of {table} isn't below the "
                f"query's checkpointLocation, {checkpoint or 'which it has none'}. Choose a folder "
                f"in it, such as {checkpoint or '<checkpointLocation>'}/schemas.",
                table=table,
            )
    return NotImplemented


def _schema_locations(frame: Any) -> Iterator[tuple[str, str]]:
    """Of a streaming DataFrame's sources that have one, with their tables."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001  # as elsewhere
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.nodeName() != "StreamingRelationV2":
            continue
        try:
            options = leaf.extraOptions()
        except Py4JError:  # another Spark calls them otherwise
            continue
        location = options.get("schemaTrackingLocation")
        if location is not None and leaf.sourceName() == "delta":
            yield str(location), str(options.get("path"))


def _plain(location: str) -> str:
    """A folder without what may be written in several ways."""
    path = posixpath.normpath(location.removeprefix("file:"))
    return re.sub("^/+", "/", path)
