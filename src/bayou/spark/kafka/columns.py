"""The columns, those of Spark's own Kafka source, and how records become batches of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
import pyarrow as pa
import pyarrow.compute
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
from bayou.spark.kafka.offsets import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

Records: TypeAlias = "Sequence[Message]"
_Headers: TypeAlias = list[tuple[str, bytes | None]]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array

MAX_BATCH_ROWS = 5_000
"""Most records of one Arrow batch."""


def record_schema(include_headers: bool) -> StructType:
    """The columns as Spark sees them."""
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
    """The Arrow schema of the columns asked for, which may be some of them, in any order.

    `headers` may be asked for as binary: then they come packed, see `unpack_headers`. Spark takes
    8 µs a row to move an array through the JVM, even one that is null.

    Raises:
        ArgumentError: a column that the source doesn't have, or with another type.
    """
    offered = {field.name: field.dataType for field in record_schema(True).fields}
    for field in schema.fields:
        if field.name not in offered:
            raise ArgumentError(
                f"The Kafka source has no column {field.name!r}. It has {', '.join(offered)}.",
                argument="schema",
            )
        if field.name == "headers" and isinstance(field.dataType, BinaryType):
            continue
        if field.dataType != offered[field.name]:
            raise ArgumentError(
                f"Column {field.name!r} of the Kafka source is "
                f"{offered[field.name].simpleString()}, not {field.dataType.simpleString()}. "
                "Cast it after load().",
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
    """All columns but `timestampType`, headers packed: what our own tasks read."""
    kinds = {**_ARROW_TYPES, "headers": pa.binary()}
    del kinds["timestampType"]
    return pa.schema(kinds)


def unpack_headers(packed: bytes | None) -> _Headers | None:
    """The headers of a record, from the value of a `headers` column read as binary."""
    return None if packed is None else _PACKED.decode(packed)


def record_offsets(records: Records) -> list[int]:
    """The offset of each record."""
    from confluent_kafka import Message

    return cast("list[int]", list(map(Message.offset, records)))


def batch_builder(
    schema: pa.Schema, partition: TopicPartition
) -> Callable[[Records, list[int]], pa.RecordBatch]:
    """A function that makes a batch of at most `MAX_BATCH_ROWS` records of one partition.

    It takes the records and their offsets. The hot path of the source: each column is one pass of a
    C function over the records, columns that don't vary are slices of one array.
    """
    # An optional extra, which the look-up of data sources must not need.
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
        "timestamp": lambda _, __, ___, millis: _moments(millis),
        # Kafka's own numbers, as in Spark: -1 none, 0 create time, 1 log append time.
        "timestampType": lambda _, __, kinds, ___: pa.array(
            [kind - TIMESTAMP_NOT_AVAILABLE - 1 for kind in kinds], pa.int32()
        ),
        "headers": lambda records, *_: pa.array(
            [_told(headers) for headers in _headers(records)], _ARROW_TYPES["headers"]
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


def _moments(millis: list[int]) -> Any:
    """Kafka's timestamps; null for none, and for what is no date up to the year 9999.

    A client may send any number: microseconds where milliseconds were asked for are the year 55840,
    which neither Python nor SQL can tell, nanoseconds no moment at all.
    """
    found: Any = pa.array(millis, pa.int64())
    bounds = pc.min_max(found)
    if len(found) and (bounds["min"].as_py() < 0 or bounds["max"].as_py() > _LAST_MILLI):
        known = pc.and_(pc.greater_equal(found, 0), pc.less_equal(found, _LAST_MILLI))
        found = pc.if_else(known, found, pa.scalar(None, pa.int64()))
    return found.cast(_MILLIS).cast(_MICROS)


def _headers(records: Records) -> list[_Headers | None]:
    """The headers of each record; None for none, and where a name isn't UTF-8.

    C clients don't check names, and the library has no other way to read such a record: it fails,
    gives its list all the same, and gives it without failing when it is asked again. There is no
    name in it then, which ends the process of whoever looks. `map` makes this a SystemError;
    a call that the interpreter has specialized would not.
    """
    from confluent_kafka import Message

    found: list[_Headers | None] = []
    asked = map(Message.headers, records)
    while len(found) < len(records):
        try:
            found.extend(cast("map[_Headers | None]", asked))
        except (UnicodeDecodeError, SystemError):
            found.append(None)
    return found


def _told(headers: _Headers | None) -> list[dict[str, object]] | None:
    return [{"key": key, "value": value} for key, value in headers] if headers else None


def _packed(headers: _Headers | None) -> bytes | None:
    return msgspec.msgpack.encode(headers) if headers else None


_PACKED = msgspec.msgpack.Decoder(_Headers)

_LAST_MILLI = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
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
