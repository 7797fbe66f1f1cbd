"""The columns of the data source, and the conversion of Kafka records to Arrow batches.

The columns are the same as those of Spark's Kafka source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bayou.errors import ArgumentError
from bayou.kernel.arrow.compute import pc
from bayou.spark.kafka.offsets import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

Records: TypeAlias = "Sequence[Message]"
_Headers: TypeAlias = list[tuple[str, bytes | None]]

MAX_BATCH_ROWS = 5_000
"""Maximum number of records in an Arrow batch."""


def record_schema(include_headers: bool) -> StructType:
    """Return the schema of the data source."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField("headers", ArrayType(header)))
    return StructType(fields)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the requested columns.

    The column `headers` may also be requested as binary. It then contains packed headers; see
    `unpack_headers`. Packed headers are faster: the transfer of an array through the JVM takes 8 µs
    for each row, even if the array is null.

    Args:
        schema: the requested columns, a subset of the data source's columns.

    Raises:
        ArgumentError: the data source has no such column, or the column has another type.
    """
    available = {field.name: field.dataType for field in record_schema(True).fields}
    for field in schema.fields:
        if field.name not in available:
            raise ArgumentError(
                f"Column {field.name!r}: the Kafka source has no column of this name. Use "
                f"{', '.join(available)}.",
                argument="schema",
            )
        if field.name == "headers" and isinstance(field.dataType, BinaryType):
            continue
        if field.dataType != available[field.name]:
            raise ArgumentError(
                f"Column {field.name!r}: its type in the Kafka source is "
                f"{available[field.name].simpleString()}, not {field.dataType.simpleString()}. "
                "Cast the column after load().",
                argument="schema",
            )
    return pa.schema(
        [
            pa.field(
                f.name,
                pa.binary() if isinstance(f.dataType, BinaryType) else _ARROW_TYPES[f.name],
                f.nullable,
            )
            for f in schema.fields
        ]
    )


def packed_schema() -> pa.Schema:
    """Return the schema of the batches that `KafkaTasks.read` returns.

    There is no column `timestampType`. The column `headers` is binary; see `unpack_headers`.
    """
    types = {**_ARROW_TYPES, "headers": pa.binary()}
    del types["timestampType"]
    return pa.schema(types)


def unpack_headers(packed: bytes | None) -> _Headers | None:
    """Convert a packed value of the column `headers` to (name, value) pairs."""
    return None if packed is None else _PACKED.decode(packed)


def record_offsets(records: Records) -> list[int]:
    """Return the offset of each record."""
    from confluent_kafka import Message

    return cast("list[int]", list(map(Message.offset, records)))


def batch_builder(
    schema: pa.Schema, partition: TopicPartition
) -> Callable[[Records, list[int]], pa.RecordBatch]:
    """Return a function that converts records to a batch with the columns of `schema`.

    The function takes at most `MAX_BATCH_ROWS` records and a list of their offsets. The function is
    the hot path of the source. Therefore a C function builds each column in one pass over the
    records. The columns `topic` and `partition` are slices of arrays that all batches share.
    """
    # Imported here, because Spark's lookup of data sources must work without this extra.
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

    topics = pa.repeat(pa.scalar(partition.topic, pa.string()), MAX_BATCH_ROWS)
    numbers = pa.repeat(pa.scalar(partition.partition, pa.int32()), MAX_BATCH_ROWS)
    timestamped = "timestamp" in schema.names or "timestampType" in schema.names
    columns: dict[str, Callable[[Records, list[int], Any, Any], Any]] = {
        "key": lambda records, *_: pa.array(list(map(Message.key, records)), pa.binary()),
        "value": lambda records, *_: pa.array(list(map(Message.value, records)), pa.binary()),
        "topic": lambda records, *_: topics.slice(0, len(records)),
        "partition": lambda records, *_: numbers.slice(0, len(records)),
        "offset": lambda _, offsets, *__: pa.array(offsets, pa.int64()),
        "timestamp": lambda _, __, ___, millis: _timestamps(millis),
        # Kafka's values, as in Spark: -1 no timestamp, 0 create time, 1 log append time.
        "timestampType": lambda _, __, kinds, ___: pa.array(
            [kind - TIMESTAMP_NOT_AVAILABLE - 1 for kind in kinds], pa.int32()
        ),
        "headers": lambda records, *_: pa.array(
            [_header_structs(headers) for headers in _headers(records)], _ARROW_TYPES["headers"]
        ),
    }
    if "headers" in schema.names and pa.types.is_binary(schema.field("headers").type):
        columns["headers"] = lambda records, *_: pa.array(
            [_packed(headers) for headers in _headers(records)], pa.binary()
        )
    builders = [columns[name] for name in schema.names]

    def build(records: Records, offsets: list[int]) -> pa.RecordBatch:
        stamps = list(map(Message.timestamp, records)) if timestamped else []
        kinds = [stamp[0] for stamp in stamps]
        millis = [stamp[1] for stamp in stamps]
        arrays = [builder(records, offsets, kinds, millis) for builder in builders]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return build


def _timestamps(millis: list[int]) -> Any:
    """Convert timestamps of records; negative timestamps and timestamps after 9999 become null.

    A missing timestamp is negative. A client can send any number. For example, if a client sends
    microseconds instead of milliseconds, the year is about 55840. Python and SQL don't support such
    years.
    """
    timestamps: Any = pa.array(millis, pa.int64())
    bounds = pc.min_max(timestamps)
    if len(timestamps) and (bounds["min"].as_py() < 0 or bounds["max"].as_py() > _MAX_MILLIS):
        valid = pc.and_(pc.greater_equal(timestamps, 0), pc.less_equal(timestamps, _MAX_MILLIS))
        timestamps = pc.if_else(valid, timestamps, pa.scalar(None, pa.int64()))
    return timestamps.cast(_MILLIS).cast(_MICROS)


def _headers(records: Records) -> list[_Headers | None]:
    """Return the headers of each record.

    The value is None if the record has no headers, or if the name of a header isn't UTF-8.

    Some clients write names that aren't UTF-8. For such a record, the first call of
    `Message.headers` raises an error. A second call from Python code can return a list with a null
    pointer, which crashes the process. A second call from `map` raises a SystemError instead, which
    this function catches. Therefore all calls come from `map`.
    """
    from confluent_kafka import Message

    result: list[_Headers | None] = []
    headers = map(Message.headers, records)
    while len(result) < len(records):
        try:
            result.extend(cast("map[_Headers | None]", headers))
        except (UnicodeDecodeError, SystemError):
            result.append(None)
    return result


def _header_structs(headers: _Headers | None) -> list[dict[str, object]] | None:
    return [{"key": key, "value": value} for key, value in headers] if headers else None


def _packed(headers: _Headers | None) -> bytes | None:
    return msgspec.msgpack.encode(headers) if headers else None


_PACKED = msgspec.msgpack.Decoder(_Headers)

_MAX_MILLIS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
_MILLIS = pa.timestamp("ms", "UTC")
_MICROS = pa.timestamp("us", "UTC")

_ARROW_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _MICROS,
    "timestampType": pa.int32(),
    "headers": pa.list_(
        pa.field(
            "element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        )
    ),
}
