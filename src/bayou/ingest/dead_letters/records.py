"""The schema of dead letters, stored in a Delta table beside the target.

| column | type | |
|---|---|---|
| `reason` | string | why the record was refused |
| `topic`, `partition`, `offset` | string, int, long | the record's position in Kafka |
| `timestamp` | timestamp | the record's Kafka timestamp |
| `headers` | array of (`key` string, `value` binary) | null if the record has no headers |
| `key`, `value` | binary | the raw bytes |
| `_ingestion_timestamp` | timestamp | when the record's batch was read |
"""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.metadata_columns import HEADERS
from bayou.ingest.decode import Decoded
from bayou.kernel.arrow.types import to_arrow_schema, to_arrow_type
from bayou.protocol.schema import (
    BINARY,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    StructField,
    StructType,
)
from bayou.spark.kafka.columns import unpack_headers

DEAD_LETTER_SCHEMA = StructType(
    (
        StructField(name="reason", data_type=STRING, nullable=False),
        StructField(name="topic", data_type=STRING, nullable=False),
        StructField(name="partition", data_type=INTEGER, nullable=False),
        StructField(name="offset", data_type=LONG, nullable=False),
        StructField(name="timestamp", data_type=TIMESTAMP),
        StructField(
            name="headers",
            data_type=HEADERS,
        ),
        StructField(name="key", data_type=BINARY),
        StructField(name="value", data_type=BINARY),
        StructField(name="_ingestion_timestamp", data_type=TIMESTAMP, nullable=False),
    )
)

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def fingerprints(records: pa.RecordBatch | pa.Table) -> list[bytes]:
    """Return a hash of the Kafka timestamp, key and value of each record.

    An offset doesn't identify a record, because a recreated topic uses the same offsets again.
    """
    timestamps = records.column("timestamp").cast(_TIMESTAMP).cast(pa.int64()).to_pylist()
    keys, values = records.column("key").to_pylist(), records.column("value").to_pylist()
    result = []
    for parts in zip(timestamps, keys, values, strict=True):
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            encoded = part if isinstance(part, bytes) else str(part).encode()
            digest.update(b"%d %d " % (isinstance(part, bytes), len(encoded)) + encoded)
        result.append(digest.digest())
    return result


def dead_letter_rows(
    decoded: Decoded, source: pa.RecordBatch, ingestion_timestamp: int
) -> pa.RecordBatch:
    """Return a dead letter for each record of a batch that couldn't be decoded to a row.

    Args:
        source: the batch, with the columns of the Kafka source. One binary value contains all
            headers of a record.
        ingestion_timestamp: `_ingestion_timestamp` of the dead letters, in microseconds since the
            epoch.
    """
    refused = source.take(decoded.bad_positions)
    return _rows(refused, decoded.reasons, ingestion_timestamp)


def unread_rows(source: pa.RecordBatch, reason: str, ingestion_timestamp: int) -> pa.RecordBatch:
    """Return a dead letter with the same reason for each record, without decoding the records.

    Args:
        source: the records, with the columns of the Kafka source. One binary value contains all
            headers of a record.
        ingestion_timestamp: `_ingestion_timestamp` of the dead letters, in microseconds since the
            epoch.
    """
    reasons: Any = pa.repeat(pa.scalar(reason), source.num_rows)
    return _rows(source, reasons, ingestion_timestamp)


def _rows(
    refused: pa.RecordBatch, reasons: pa.Array[Any], ingestion_timestamp: int
) -> pa.RecordBatch:
    from_kafka: list[pa.Array[Any]] = [
        header_lists(refused.column(field.name), to_arrow_type(field.data_type))
        if field.name == "headers"
        else refused.column(field.name).cast(to_arrow_type(field.data_type))
        for field in DEAD_LETTER_SCHEMA.fields[1:-1]
    ]
    read_at = pa.repeat(pa.scalar(ingestion_timestamp, _TIMESTAMP), refused.num_rows)
    columns = [reasons, *from_kafka, read_at]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(DEAD_LETTER_SCHEMA))


def header_lists(packed: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Convert the headers of records to lists of (`key`, `value`), as an array of type `kind`.

    Args:
        packed: for each record, its headers: a list of (`key`, `value`), or one binary value that
            contains all headers.
    """
    if pa.types.is_list(packed.type):
        return packed.cast(kind)
    values: list[Any] = packed.to_pylist()
    unpacked = [
        None if value is None else [{"key": k, "value": v} for k, v in unpack_headers(value) or ()]
        for value in values
    ]
    return pa.array(unpacked, kind)
