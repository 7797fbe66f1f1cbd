"""Generates the log of a table of very many files: one checkpoint and ten commits behind it.

There are no data files: planning never opens them. The checkpoint has the schema that Spark
writes; its row groups are as asked, since Spark puts a million adds into one.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["ADDED", "COMMITS", "REMOVED", "live_files", "table_with"]

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "bench"
COMMITS = 10
ADDED = 50  # files a commit adds
REMOVED = 5  # files of the checkpoint that a commit removes
DAYS = 1000
ROWS = 1000  # rows a data file would hold
CHUNK = 100_000  # files generated at a time

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
_TABLE_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": data_type, "nullable": True, "metadata": {}}
        for name, data_type in (("id", "long"), ("user", "string"), ("day", "date"))
    ],
}


def live_files(files: int) -> int:
    """How many files are live at the latest version."""
    return files + COMMITS * (ADDED - REMOVED)


def table_with(files: int, *, one_row_group: bool) -> Path:
    """The table's folder; it is generated the first time and kept."""
    shape = "one-row-group" if one_row_group else "row-groups"
    table = CACHE / f"plan-{files}-{shape}"
    if not (table / "complete").exists():
        log = table / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        _write_checkpoint(log, files, one_row_group=one_row_group)
        for version in range(1, COMMITS + 1):
            _write_commit(log, version, files)
        (table / "complete").touch()
    return table


def _write_checkpoint(log: Path, files: int, *, one_row_group: bool) -> None:
    path = log / f"{0:020}.checkpoint.parquet"
    # Spark writes small batches into one row group; pyarrow ends a row group with its batch.
    with pq.ParquetWriter(path, _SCHEMA, compression="snappy") as writer:
        chunks = [_head()]
        for start in range(0, files, CHUNK):
            chunks.append(_adds(np.arange(start, min(files, start + CHUNK))))
            if not one_row_group:
                writer.write_table(pa.Table.from_batches(chunks), row_group_size=CHUNK + 2)
                chunks.clear()
        if chunks:
            writer.write_table(pa.Table.from_batches(chunks), row_group_size=files + 2)
    hint = {"version": 0, "size": files + 2, "sizeInBytes": path.stat().st_size}
    (log / "_last_checkpoint").write_text(json.dumps(hint))


def _head() -> pa.RecordBatch:
    metadata = {
        "id": str(uuid.UUID(int=1)),
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps(_TABLE_SCHEMA),
        "partitionColumns": ["day"],
        "configuration": [],
        "createdTime": 1_700_000_000_000,
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    return pa.RecordBatch.from_pylist([{"metaData": metadata}, {"protocol": protocol}], _SCHEMA)


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
    for add in _add_structs(np.arange(new, new + ADDED)).to_pylist():
        present = {key: value for key, value in add.items() if value is not None}
        present["partitionValues"] = dict(present["partitionValues"])
        lines.append({"add": present | {"dataChange": True}})
    old = np.arange((version - 1) * REMOVED, version * REMOVED) * max(1, files // 1000)
    lines.extend(
        {"remove": {"path": path, "deletionTimestamp": timestamp, "dataChange": True}}
        for path in _paths(old, _days(old)).to_pylist()
    )
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (log / f"{version:020}.json").write_text(text)
