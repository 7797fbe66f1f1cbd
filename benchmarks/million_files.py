"""Generates the log of a table with very many files: one checkpoint and ten later commits.

There are no data files, because planning doesn't open them. The checkpoint has Spark's schema, and
one of several shapes. In the shape `commits` there is no checkpoint and one commit per file.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = [
    "ADDED",
    "COMMITS",
    "REMOVED",
    "SHAPES",
    "checkpoint_files",
    "live_files",
    "table_with",
    "wire_adds",
]

SHAPES = {
    "row-groups": "one file of several row groups",
    "one-row-group": "one file of one row group, as Spark writes it",
    "parts": "a file for each 50,000 adds, multi-part",
    "sidecars": "a sidecar for each 100,000 adds, V2",
    "commits": "no checkpoint, a commit for each file",
}

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "bench"
COMMITS = 10
ADDED = 50  # files a commit adds
REMOVED = 5  # files of the checkpoint that a commit removes
DAYS = 1000
ROWS = 1000  # rows a data file would hold
CHUNK = 100_000  # files generated at a time
PART = 50_000  # adds of a part of a multi-part checkpoint

_SCRAMBLES = (0x9E3779B97F4A7C15, 0xD1342543DE82EF95)
_STRINGS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", _STRINGS),
        ("deletionVector", _VECTOR),
        ("stats", pa.string()),
    ]
)
_SCHEMA = pa.schema(
    [
        (
            "txn",
            pa.struct(
                [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
            ),
        ),
        ("add", _ADD),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("extendedFileMetadata", pa.bool_()),
                    ("partitionValues", _STRINGS),
                    ("size", pa.int64()),
                    ("deletionVector", _VECTOR),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.field("element", pa.string()))),
                    ("configuration", _STRINGS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        ),
    ]
)
_SIDECAR_SCHEMA = pa.schema([_SCHEMA.field("add"), _SCHEMA.field("remove")])
_STRING_LIST = pa.list_(pa.field("element", pa.string()))
_V2_SCHEMA = pa.schema(
    [
        _SCHEMA.field("txn"),
        _SCHEMA.field("metaData"),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", _STRING_LIST),
                    ("writerFeatures", _STRING_LIST),
                ]
            ),
        ),
        ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", _STRINGS)])),
        (
            "sidecar",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("sizeInBytes", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("tags", _STRINGS),
                ]
            ),
        ),
    ]
)
_TABLE_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": data_type, "nullable": True, "metadata": {}}
        for name, data_type in (("id", "long"), ("user", "string"), ("day", "date"))
    ],
}


def live_files(files: int, shape: str) -> int:
    """Return the number of live files of the latest version."""
    return files if shape == "commits" else files + COMMITS * (ADDED - REMOVED)


def table_with(files: int, shape: str) -> Path:
    """Return the table's folder; generate the table if it isn't cached."""
    table = CACHE / f"plan-{files}-{shape}"
    if not (table / "complete").exists():
        log = table / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        if shape == "commits":
            _write_commits_only(log, files)
        else:
            _write_checkpoint(log, files, shape)
            hint = {"version": 0, "size": files + 2}
            if shape == "parts":
                hint["parts"] = -(-files // PART)
            (log / "_last_checkpoint").write_text(json.dumps(hint))
            for version in range(1, COMMITS + 1):
                _write_commit(log, version, files)
        (table / "complete").touch()
    return table


def checkpoint_files(table: Path) -> list[Path]:
    """Return the checkpoint's Parquet files that contain add actions."""
    log = table / "_delta_log"
    return sorted((log / "_sidecars").glob("*.parquet")) or sorted(log.glob("*.parquet"))


def _write_checkpoint(log: Path, files: int, shape: str) -> None:
    single = log / f"{0:020}.checkpoint.parquet"
    match shape:
        case "parts":
            parts = -(-files // PART)
            for part in range(parts):
                path = log / f"{0:020}.checkpoint.{part + 1:010}.{parts:010}.parquet"
                adds = _adds(np.arange(part, files, parts))
                _write(path, [_head(), adds] if part == 0 else [adds], _SCHEMA)
        case "sidecars":
            (log / "_sidecars").mkdir(exist_ok=True)
            sidecars = -(-files // CHUNK)
            statuses = []
            for number in range(sidecars):
                path = log / "_sidecars" / f"{uuid.UUID(int=number)}.parquet"
                adds = _adds(np.arange(number, files, sidecars))
                _write(path, [adds.select(_SIDECAR_SCHEMA.names)], _SIDECAR_SCHEMA)
                statuses.append(path)
            top = log / f"{0:020}.checkpoint.{uuid.UUID(int=0)}.parquet"
            _write(top, [_v2_head(statuses)], _V2_SCHEMA)
        case _:
            # Spark writes small batches into one row group; pyarrow ends one with its batch.
            with pq.ParquetWriter(single, _SCHEMA, compression="snappy") as writer:
                chunks = [_head()]
                for start in range(0, files, CHUNK):
                    chunks.append(_adds(np.arange(start, min(files, start + CHUNK))))
                    if shape == "row-groups":
                        writer.write_table(pa.Table.from_batches(chunks), row_group_size=CHUNK + 2)
                        chunks.clear()
                if chunks:
                    writer.write_table(pa.Table.from_batches(chunks), row_group_size=files + 2)


def _write(path: Path, batches: list[pa.RecordBatch], schema: pa.Schema) -> None:
    table = pa.Table.from_batches(batches, schema)
    pq.write_table(table, path, compression="snappy", row_group_size=len(table))


def _v2_head(sidecars: list[Path]) -> pa.RecordBatch:
    rows: list[dict[str, object]] = [
        {"checkpointMetadata": {"version": 0}},
        {"metaData": _metadata()},
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["v2Checkpoint"],
                "writerFeatures": ["v2Checkpoint"],
            }
        },
    ]
    rows += [
        {"sidecar": {"path": p.name, "sizeInBytes": p.stat().st_size, "modificationTime": 0}}
        for p in sidecars
    ]
    return pa.RecordBatch.from_pylist(rows, _V2_SCHEMA)


def _write_commits_only(log: Path, files: int) -> None:
    head = {
        "metaData": {
            **_metadata(),
            "format": {"provider": "parquet", "options": {}},
            "configuration": {},
        },
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    }
    for start in range(0, files, CHUNK):
        numbers = np.arange(start, min(files, start + CHUNK))
        for version, add in zip(numbers.tolist(), wire_adds(numbers), strict=True):
            info = {"timestamp": 1_700_000_000_000 + version, "operation": "STREAMING UPDATE"}
            lines: list[dict[str, object]] = [{"commitInfo": info}, {"add": add}]
            if version == 0:
                lines += [{key: value} for key, value in head.items()]
            text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
            (log / f"{version:020}.json").write_text(text)


def wire_adds(numbers: np.ndarray) -> list[dict[str, object]]:
    """Return add actions as they are written in a commit."""
    found = []
    for add in _add_structs(numbers).to_pylist():
        present = {key: value for key, value in add.items() if value is not None}
        present["partitionValues"] = dict(present["partitionValues"])
        found.append(present | {"dataChange": True})
    return found


def _head() -> pa.RecordBatch:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    return pa.RecordBatch.from_pylist([{"metaData": _metadata()}, {"protocol": protocol}], _SCHEMA)


def _metadata() -> dict[str, object]:
    return {
        "id": str(uuid.UUID(int=1)),
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps(_TABLE_SCHEMA),
        "partitionColumns": ["day"],
        "configuration": [],
        "createdTime": 1_700_000_000_000,
    }


def _adds(numbers: np.ndarray) -> pa.RecordBatch:
    add = _add_structs(numbers)
    columns = [
        add if field.name == "add" else pa.nulls(len(numbers), field.type) for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _add_structs(numbers: np.ndarray) -> pa.StructArray:
    count = len(numbers)
    days = _days(numbers)
    partition_values = pa.MapArray.from_arrays(
        pa.array(np.arange(count + 1), pa.int32()), pa.array(["day"]).take(_zeros(count)), days
    )
    first = pa.array(numbers * ROWS)
    last = pa.array(numbers * ROWS + ROWS - 1)
    stats = _join(
        f'{{"numRecords":{ROWS},"minValues":{{"id":',
        first,
        ',"user":"user-',
        first,
        '"},"maxValues":{"id":',
        last,
        ',"user":"user-',
        last,
        '"},"nullCount":{"id":0,"user":3}}',
    )
    values = {
        "path": _paths(numbers, days),
        "partitionValues": partition_values,
        "size": pa.array(100_000 + numbers % 10_007),
        "modificationTime": pa.array(1_700_000_000_000 + numbers),
        "dataChange": pa.array(np.zeros(count, dtype=bool)),
        "stats": stats,
    }
    arrays = [values.get(field.name, pa.nulls(count, field.type)) for field in _ADD]
    return pa.StructArray.from_arrays(arrays, fields=list(_ADD))


def _paths(numbers: np.ndarray, days: pa.Array) -> pa.Array:
    # Two scrambles of the number stand for the UUID: they compress as badly.
    wide = numbers.astype(np.uint64)
    first, second = (pa.array(wide * np.uint64(odd)) for odd in _SCRAMBLES)
    return _join("day=", days, "/part-00000-", first, "-", second, ".c000.zstd.parquet")


def _days(numbers: np.ndarray) -> pa.Array:
    first = np.datetime64("2022-01-01")
    return pc.cast(pa.array(first + (numbers % DAYS).astype("timedelta64[D]")), pa.string())


def _join(*parts: str | pa.Array) -> pa.Array:
    texts = [part if isinstance(part, str) else pc.cast(part, pa.string()) for part in parts]
    return pc.binary_join_element_wise(*texts, "")


def _zeros(count: int) -> pa.Array:
    return pa.array(np.zeros(count, dtype=np.int32))


def _write_commit(log: Path, version: int, files: int) -> None:
    timestamp = 1_700_100_000_000 + version
    lines: list[dict[str, object]] = [
        {"commitInfo": {"timestamp": timestamp, "operation": "WRITE", "operationParameters": {}}}
    ]
    new = files + (version - 1) * ADDED
    lines.extend({"add": add} for add in wire_adds(np.arange(new, new + ADDED)))
    old = np.arange((version - 1) * REMOVED, version * REMOVED) * max(1, files // 1000)
    lines.extend(
        {"remove": {"path": path, "deletionTimestamp": timestamp, "dataChange": True}}
        for path in _paths(old, _days(old)).to_pylist()
    )
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (log / f"{version:020}.json").write_text(text)
