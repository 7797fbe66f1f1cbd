"""The rows of a target table: a record's fields, where it came from, and when.

| column | type | |
|---|---|---|
| the record's fields | by the JSON Schema, or inferred | nullable |
| `_kafka_topic`, `_kafka_partition`, `_kafka_offset` | string, int, long | not null |
| `_ingestion_timestamp` | timestamp | when the batch was read, not null |
| `_processed_at` | timestamp | when the row was written, not null |
| `_kafka_timestamp` | timestamp | the record's, or a neighbour's; on wish, and for upserts |
| `_kafka_key`, `_kafka_headers` | binary, array of (`key`, `value`) | on wish |
| `year`, `month`, `day` | strings `2024`, `01`, `05` | of the event time, UTC; not null |

The last three are made only where they are partition columns and the record has no such field.

Texts in partition columns, as the table takes them.

Delta's log can't tell an empty text from null there. Rows of an upsert are compared with what the
table has, so that they have to be null before: `''` would never find its row again. A text that is
too long for the name of a folder makes its record a dead letter; no table takes it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.ingest.dead_letters.records import HEADERS, header_lists
from bayou.ingest.decode import Decoded
from bayou.kernel.arrow.types import to_arrow_schema, to_arrow_type
from bayou.protocol.file_names import LONGEST_FOLDER_NAME, partition_directory
from bayou.protocol.schema import BINARY, INTEGER, LONG, STRING, TIMESTAMP, StructField, StructType

__all__ = [
    "KAFKA_COLUMNS",
    "RECORD_COLUMNS",
    "TIME_PARTS",
    "RowLayout",
    "record_part",
    "with_partition_texts",
]


pc: Any = pyarrow.compute  # its stubs lose the kind of an array

KAFKA_COLUMNS = StructType(
    (
        StructField(name="_kafka_topic", data_type=STRING, nullable=False),
        StructField(name="_kafka_partition", data_type=INTEGER, nullable=False),
        StructField(name="_kafka_offset", data_type=LONG, nullable=False),
        StructField(name="_ingestion_timestamp", data_type=TIMESTAMP, nullable=False),
        StructField(name="_processed_at", data_type=TIMESTAMP, nullable=False),
    )
)

RECORD_COLUMNS = StructType(
    (
        StructField(name="_kafka_timestamp", data_type=TIMESTAMP),
        StructField(name="_kafka_key", data_type=BINARY),
        StructField(name="_kafka_headers", data_type=HEADERS),
    )
)
"""More of what Kafka says of a record; a layout has those that its topic asks for."""

TIME_PARTS = {"year": (pc.year, 4), "month": (pc.month, 2), "day": (pc.day, 2)}
"""Partition columns that are made where a record has no such field: what gives them, how wide."""
_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """The columns of a target table; pickles.

    Attributes:
        record: the record's fields.
        time_parts: those of year, month, day that are made from the event time.
        event_time: the field that gives them, None for the record's Kafka timestamp.
        more: names of those of `RECORD_COLUMNS` that rows have.
    """

    record: StructType
    time_parts: tuple[str, ...]
    event_time: str | None
    more: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        record: StructType,
        partition_columns: Sequence[str],
        event_time: str | None,
        more: Sequence[str] = (),
    ) -> RowLayout:
        """The layout for records with these fields."""
        parts = tuple(c for c in partition_columns if c in TIME_PARTS and record.get(c) is None)
        return cls(record=record, time_parts=parts, event_time=event_time, more=tuple(more))

    @property
    def schema(self) -> StructType:
        """The table's schema."""
        parts = tuple(
            StructField(name=p, data_type=STRING, nullable=False) for p in self.time_parts
        )
        more = tuple(f for f in RECORD_COLUMNS if f.name in self.more)
        return StructType((*self.record, *KAFKA_COLUMNS, *more, *parts))

    @property
    def taken(self) -> frozenset[str]:
        """Names in lower case that a new field of a record can't have."""
        return frozenset(n.lower() for n in self.schema.names)

    def rows(
        self, decoded: Decoded, source: pa.RecordBatch, ingestion_timestamp: int
    ) -> pa.RecordBatch:
        """The table's rows for a decoded batch.

        Args:
            decoded: the records' columns and positions in `source`.
            source: columns of the Kafka source.
            ingestion_timestamp: microseconds since the epoch.
        """
        count = len(decoded.positions)
        from_kafka = source.select(["topic", "partition", "offset"]).take(decoded.positions)
        kafka_time = _kafka_times(source, ingestion_timestamp).take(decoded.positions)
        columns = [
            *decoded.columns.columns,
            from_kafka.column("topic").cast(pa.string()),
            from_kafka.column("partition").cast(pa.int32()),
            from_kafka.column("offset").cast(pa.int64()),
            _repeated(ingestion_timestamp, count),
            _repeated(time.time_ns() // 1000, count),
        ]
        columns += [
            self._said(f.name, source.take(decoded.positions), kafka_time)
            for f in RECORD_COLUMNS
            if f.name in self.more
        ]
        if self.time_parts:
            event_time = self._event_time(decoded, kafka_time)
            columns += [_time_part(part, event_time) for part in self.time_parts]
        return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(self.schema))

    def _said(self, name: str, records: pa.RecordBatch, kafka_time: pa.Array[Any]) -> pa.Array[Any]:
        match name:
            case "_kafka_timestamp":
                return kafka_time
            case "_kafka_key":
                return records.column("key").cast(pa.binary())
            case _:
                headers = records.column("headers")
                if pa.types.is_list(headers.type):
                    return headers.cast(to_arrow_type(HEADERS))
                return header_lists(headers, to_arrow_type(HEADERS))

    def _event_time(self, decoded: Decoded, kafka_time: pa.Array[Any]) -> pa.Array[Any]:
        if self.event_time is None:
            return kafka_time
        field = decoded.columns.column(self.event_time).cast(pa.timestamp("us"))
        result: pa.Array[Any] = pc.coalesce(field.cast(_UTC_MICROSECONDS), kafka_time)
        return result


def record_part(
    schema: StructType, partition_columns: Sequence[str], more: Sequence[str] = ()
) -> StructType:
    """The record's fields in the schema of a table made by `RowLayout`."""
    made = {*KAFKA_COLUMNS.names, *more}
    for name in partition_columns:
        field = schema.get(name)
        if field and name in TIME_PARTS and field.data_type == STRING and not field.nullable:
            made.add(name)
    return StructType(tuple(f for f in schema if f.name not in made))


def _kafka_times(source: pa.RecordBatch, ingestion_timestamp: int) -> Any:
    """Kafka's timestamps; of a record without a usable one that of its neighbour.

    By them rows are upserted: the time of reading would put it before all that wait behind it.
    """
    moments: Any = source.column("timestamp").cast(_UTC_MICROSECONDS)
    if moments.null_count:
        moments = pc.fill_null_backward(pc.fill_null_forward(moments))
        moments = pc.fill_null(moments, pa.scalar(ingestion_timestamp, _UTC_MICROSECONDS))
    return moments


def _repeated(microseconds: int, count: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(microseconds, _UTC_MICROSECONDS), count)


def _time_part(part: str, moments: pa.Array[Any]) -> pa.Array[Any]:
    function, width = TIME_PARTS[part]
    text: pa.Array[Any] = pc.utf8_lpad(function(moments).cast(pa.string()), width, "0")
    return text


_LONGEST_OCTET = 3
"""Bytes of a folder's name that one of a text may take, escaped."""


def with_partition_texts(decoded: Decoded, columns: Sequence[str], *, folders: bool) -> Decoded:
    """Decoded records whose texts in partition columns are those that the table will have.

    Args:
        columns: the table's partition columns.
        folders: whether values are in the names of folders.
    """
    for name in columns:
        at = decoded.columns.schema.get_field_index(name)
        if at < 0 or not pa.types.is_string(decoded.columns.schema.field(at).type):
            continue
        if folders:
            decoded = _without_long(decoded, name)
        texts: Any = decoded.columns.column(at)
        empty = pc.equal(texts, "")
        if pc.any(empty, min_count=0).as_py():
            shown = pc.if_else(empty, pa.scalar(None, texts.type), texts)
            field = decoded.columns.schema.field(at)
            decoded = replace(decoded, columns=decoded.columns.set_column(at, field, shown))
    return decoded


def _without_long(decoded: Decoded, name: str) -> Decoded:
    texts: Any = decoded.columns.column(name)
    room = (LONGEST_FOLDER_NAME - len(_folder(name, "x")) + 1) // _LONGEST_OCTET
    suspects = texts.filter(pc.greater(pc.binary_length(texts), room)).unique()
    if not len(suspects):
        return decoded
    found = [
        text for text in suspects.to_pylist() if len(_folder(name, text)) > LONGEST_FOLDER_NAME
    ]
    bad = pc.is_in(texts, value_set=pa.array(found, texts.type))
    reason = (
        f"field {name!r} is too long for a partition column: its folder's name would have more "
        f"than {LONGEST_FOLDER_NAME} bytes"
    )
    refused = decoded.positions.filter(bad)
    kept = pc.invert(bad)
    return replace(
        decoded,
        columns=decoded.columns.filter(kept),
        positions=decoded.positions.filter(kept),
        bad_positions=pa.concat_arrays([decoded.bad_positions, refused]),
        reasons=pa.concat_arrays([decoded.reasons, pa.repeat(pa.scalar(reason), len(refused))]),
    )


def _folder(name: str, text: Any) -> bytes:
    return partition_directory([name], {name: text}).encode()
