"""Writes logs action by action, valid or invalid, for tests of readers.

Actions are plain dictionaries in the form of PROTOCOL.md. The module doesn't use Bayou's own
encoding, so that tests compare Bayou with the specification and not with itself.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.kernel.engine import Engine

__all__ = [
    "LogWriter",
    "WireAction",
    "add",
    "commit_info",
    "deletion_vector",
    "metadata",
    "protocol",
    "remove",
    "txn",
]

WireAction: TypeAlias = Mapping[str, Any]
"""An object with one key, the kind of the action."""


def protocol(
    reader: int = 1, writer: int = 2, features: tuple[list[str], list[str]] | None = None
) -> WireAction:
    """Return a protocol action; `features` are reader features and writer features."""
    body: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if features is not None:
        if reader >= 3:
            body["readerFeatures"] = features[0]
        body["writerFeatures"] = features[1]
    return {"protocol": body}


def metadata(
    fields: Mapping[str, Any],
    partition_columns: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    table_id: str = "00000000-0000-4000-8000-000000000000",
) -> WireAction:
    """Return a metaData action; `fields` has the type of each column as in schema JSON."""
    schema = {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in fields.items()
        ],
    }
    return {
        "metaData": {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": list(partition_columns),
            "configuration": dict(configuration or {}),
            "createdTime": 0,
        }
    }


def add(
    path: str,
    *,
    partition_values: Mapping[str, str | None] | None = None,
    size: int = 1,
    stats: Mapping[str, Any] | str | None = None,
    vector: Mapping[str, Any] | None = None,
    **fields: Any,
) -> WireAction:
    """Return an add action with the path unchanged; `fields` are further fields of the action."""
    body = {
        "path": path,
        "partitionValues": dict(partition_values or {}),
        "size": size,
        "modificationTime": 0,
        "dataChange": True,
        **fields,
    }
    if stats is not None:
        body["stats"] = stats if isinstance(stats, str) else json.dumps(stats)
    if vector is not None:
        body["deletionVector"] = dict(vector)
    return {"add": body}


def remove(path: str, *, vector: Mapping[str, Any] | None = None, **fields: Any) -> WireAction:
    """Return a remove action with the path unchanged; `fields` are additional fields."""
    body = {"path": path, "dataChange": True, **fields}
    if vector is not None:
        body["deletionVector"] = dict(vector)
    return {"remove": body}


def deletion_vector(text: str, offset: int | None = None) -> Mapping[str, Any]:
    """Return a descriptor of a deletion vector in a file; `text` is `pathOrInlineDv`."""
    body: dict[str, Any] = {
        "storageType": "u",
        "pathOrInlineDv": text,
        "sizeInBytes": 36,
        "cardinality": 1,
    }
    return body if offset is None else {**body, "offset": offset}


def txn(app_id: str, version: int, last_updated: int | None = None) -> WireAction:
    """Return a txn action."""
    body: dict[str, Any] = {"appId": app_id, "version": version}
    return {"txn": body if last_updated is None else {**body, "lastUpdated": last_updated}}


def commit_info(**fields: Any) -> WireAction:
    """Return a commitInfo action."""
    return {"commitInfo": fields}


class LogWriter:
    """Writes files of a table's log through an engine."""

    def __init__(self, engine: Engine, table: str) -> None:
        self.engine = engine
        self.table = engine.files.resolve_path(table)
        engine.files.mkdirs(f"{self.table}/_delta_log")
        self._next_version = 0

    def path(self, name: str) -> str:
        """Return the path of a file in the log."""
        return f"{self.table}/_delta_log/{name}"

    def put(self, name: str, data: bytes) -> str:
        """Write a file with any content to the log; return its path."""
        self.engine.files.put(self.path(name), data)
        return self.path(name)

    def delete(self, name: str) -> None:
        """Delete a file of the log."""
        self.engine.files.delete_files([self.path(name)])

    def commit(self, *actions: WireAction, version: int | None = None) -> int:
        """Write and return the next version, or `version`, with these actions."""
        version = self._next_version if version is None else version
        lines = [json.dumps(action, ensure_ascii=False) for action in actions]
        self.put(f"{version:020d}.json", "".join(f"{line}\n" for line in lines).encode())
        self._next_version = version + 1
        return version

    def checkpoint(
        self,
        version: int,
        actions: Sequence[WireAction],
        *,
        parts: int | None = None,
        row_group_size: int = 1000,
        parsed: pa.StructType | None = None,
    ) -> list[str]:
        """Write a classic checkpoint; return the names of its files.

        Args:
            version: the version of the checkpoint.
            actions: the actions, which are distributed among the parts.
            parts: number of parts; None for a checkpoint that isn't multi-part.
            row_group_size: rows per row group.
            parsed: additional fields of `add`, such as `stats_parsed` and `partitionValues_parsed`.
        """
        names = [f"{version:020d}.checkpoint.parquet"]
        if parts is not None:
            names = [
                f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"
                for part in range(1, parts + 1)
            ]
        for number, name in enumerate(names):
            rows = [_row(action) for action in actions[number :: len(names)]]
            schema = _with_add_fields(_CHECKPOINT_SCHEMA, parsed)
            self.put(name, _parquet(rows, schema, row_group_size))
        return names

    def v2_checkpoint(
        self,
        version: int,
        actions: Sequence[WireAction],
        *,
        kind: Literal["json", "parquet", "classic"] = "parquet",
        sidecars: int = 0,
        inline: int = 0,
        tags: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Write a V2 checkpoint; return the name of its top-level file, then those of its sidecars.

        Args:
            version: the version of the checkpoint.
            actions: the actions.
            kind: the top-level file: JSON or Parquet with a UUID in its name, or with the name of a
                classic checkpoint.
            sidecars: number of sidecars, which have the adds and removes; 0 to write these to the
                top-level file.
            inline: number of adds and removes that stay in the top-level file beside sidecars.
            tags: tags of the checkpointMetadata action.
        """
        top = [{"checkpointMetadata": {"version": version, "tags": dict(tags or {})}}]
        files = [a for a in actions if "add" in a or "remove" in a][inline:] if sidecars else []
        names = []
        for number in range(sidecars):
            name = f"_sidecars/{uuid.uuid4()}.parquet"
            rows = [_row(action) for action in files[number::sidecars]]
            data = _parquet(rows, _SIDECAR_SCHEMA, 1000)
            self.engine.files.mkdirs(self.path("_sidecars"))
            self.put(name, data)
            names.append(name)
            body = {"path": name.split("/")[1], "sizeInBytes": len(data), "modificationTime": 1}
            top.append({"sidecar": body})
        rest = [*top, *(a for a in actions if a not in files)]
        first = f"{version:020d}.checkpoint.parquet"
        if kind != "classic":
            first = f"{version:020d}.checkpoint.{uuid.uuid4()}.{kind}"
        if kind == "json":
            self.put(first, "".join(f"{json.dumps(action)}\n" for action in rest).encode())
        else:
            self.put(first, _parquet([_row(action) for action in rest], _V2_SCHEMA, 1000))
        return [first, *names]

    def compaction(self, version: int, end_version: int, *actions: WireAction) -> str:
        """Write a log compaction file; return its name."""
        name = f"{version:020d}.{end_version:020d}.compacted.json"
        self.put(name, "".join(f"{json.dumps(action)}\n" for action in actions).encode())
        return name

    def checksum(self, version: int, **fields: Any) -> str:
        """Write a version checksum with these and the required fields; return its name."""
        name = f"{version:020d}.crc"
        required = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}
        self.put(name, json.dumps({**required, **fields}).encode())
        return name


def _parquet(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, row_group_size: int) -> bytes:
    sink = io.BytesIO()
    table = pa.Table.from_pylist(list(rows), schema)
    pq.write_table(table, sink, row_group_size=row_group_size)
    return sink.getvalue()


def _with_add_fields(schema: pa.Schema, further: pa.StructType | None) -> pa.Schema:
    if further is None:
        return schema
    index = schema.get_field_index("add")
    add_type: Any = schema.field("add").type
    fields = [f for f in add_type if f.name not in {g.name for g in further}]
    return schema.set(index, pa.field("add", pa.struct([*fields, *further])))


def _struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


_STRINGS = pa.map_(pa.string(), pa.string())
_VECTOR = _struct(
    storageType=pa.string(),
    pathOrInlineDv=pa.string(),
    offset=pa.int32(),
    sizeInBytes=pa.int32(),
    cardinality=pa.int64(),
)
# PROTOCOL.md, Checkpoint Schema.
_CHECKPOINT_SCHEMA = pa.schema(
    list(
        _struct(
            txn=_struct(appId=pa.string(), version=pa.int64(), lastUpdated=pa.int64()),
            add=_struct(
                path=pa.string(),
                partitionValues=_STRINGS,
                size=pa.int64(),
                modificationTime=pa.int64(),
                dataChange=pa.bool_(),
                stats=pa.string(),
                tags=_STRINGS,
                deletionVector=_VECTOR,
                baseRowId=pa.int64(),
                defaultRowCommitVersion=pa.int64(),
            ),
            remove=_struct(
                path=pa.string(),
                deletionTimestamp=pa.int64(),
                dataChange=pa.bool_(),
                extendedFileMetadata=pa.bool_(),
                partitionValues=_STRINGS,
                size=pa.int64(),
                deletionVector=_VECTOR,
            ),
            metaData=_struct(
                id=pa.string(),
                name=pa.string(),
                description=pa.string(),
                format=_struct(provider=pa.string(), options=_STRINGS),
                schemaString=pa.string(),
                partitionColumns=pa.list_(pa.string()),
                configuration=_STRINGS,
                createdTime=pa.int64(),
            ),
            protocol=_struct(
                minReaderVersion=pa.int32(),
                minWriterVersion=pa.int32(),
                readerFeatures=pa.list_(pa.string()),
                writerFeatures=pa.list_(pa.string()),
            ),
            domainMetadata=_struct(
                domain=pa.string(), configuration=pa.string(), removed=pa.bool_()
            ),
        )
    )
)


_SIDECAR_SCHEMA = pa.schema([_CHECKPOINT_SCHEMA.field(name) for name in ("add", "remove")])
_V2_SCHEMA = pa.schema(
    [
        *_CHECKPOINT_SCHEMA,
        *_struct(
            checkpointMetadata=_struct(version=pa.int64(), tags=_STRINGS),
            sidecar=_struct(
                path=pa.string(),
                sizeInBytes=pa.int64(),
                modificationTime=pa.int64(),
                tags=_STRINGS,
            ),
        ),
    ]
)


_MAPS = ("partitionValues", "tags", "configuration")


def _row(action: WireAction) -> dict[str, Any]:
    ((kind, body),) = action.items()
    return {kind: _maps_as_pairs(dict(body))}


def _maps_as_pairs(body: dict[str, Any]) -> dict[str, Any]:
    """Convert the maps of an action to lists of pairs, as Arrow expects them."""
    pairs = {
        key: list(value.items()) if key in _MAPS and isinstance(value, Mapping) else value
        for key, value in body.items()
    }
    if isinstance(body.get("format"), Mapping):
        options = body["format"].get("options")
        pairs["format"] = {
            **body["format"],
            "options": None if options is None else list(options.items()),
        }
    return pairs
