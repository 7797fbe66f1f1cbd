"""The rows of a target table: record fields and Kafka metadata.

| column | type | |
|---|---|---|
| the record's fields | from the JSON Schema, or inferred | nullable |
| `_kafka_topic`, `_kafka_partition`, `_kafka_offset` | string, int, long | not null |
| `_ingestion_timestamp` | timestamp | when the batch was read, not null |
| `_processed_at` | timestamp | when the row was written, not null |
| `_kafka_timestamp` | timestamp | the record's or a neighbor's; optional, always for upserts |
| `_kafka_key`, `_kafka_headers` | binary, array of (`key`, `value`) | optional |
| `year`, `month`, `day` | strings `2024`, `01`, `05` | of the event time, UTC; not null |

The last three are only added if they are partition columns and the record has no such field.

Delta's log can't distinguish an empty string from null in partition columns. Empty strings become
null before an upsert compares rows with the table, because `''` would never match its row. A string
that is too long for a folder name makes its record a dead letter.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bayou.ingest.dead_letters.records import HEADERS, header_lists
from bayou.ingest.decode import Decoded
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema, to_arrow_type
from bayou.protocol.file_names import MAX_FOLDER_NAME_BYTES, partition_directory
from bayou.protocol.schema import BINARY, INTEGER, LONG, STRING, TIMESTAMP, StructField, StructType

__all__ = [
    "KAFKA_COLUMNS",
    "RECORD_COLUMNS",
    "TIME_PARTS",
    "RowLayout",
    "record_part",
    "with_partition_strings",
]


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
"""Optional columns with Kafka's metadata of a record; a topic's configuration selects them."""

TIME_PARTS = {"year": (pc.year, 4), "month": (pc.month, 2), "day": (pc.day, 2)}
"""Partition columns derived from the event time: their function and width."""
_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """The columns of a target table. Can be pickled.

    Attributes:
        record: the record's fields.
        time_parts: which of year, month and day are derived from the event time.
        event_time: the field of the event time, None for the record's Kafka timestamp.
        more: names of the selected `RECORD_COLUMNS`.
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
        """Return the layout for records with these fields."""
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
        """Lowercase column names, which a new field of a record can't have."""
        return frozenset(n.lower() for n in self.schema.names)

    def rows(
        self, decoded: Decoded, source: pa.RecordBatch, ingestion_timestamp: int
    ) -> pa.RecordBatch:
        """Return the table's rows for a decoded batch.

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
            self._metadata(f.name, source.take(decoded.positions), kafka_time)
            for f in RECORD_COLUMNS
            if f.name in self.more
        ]
        if self.time_parts:
            event_time = self._event_time(decoded, kafka_time)
            columns += [_time_part(part, event_time) for part in self.time_parts]
        return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(self.schema))

    def _metadata(
        self, name: str, records: pa.RecordBatch, kafka_time: pa.Array[Any]
    ) -> pa.Array[Any]:
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
    """Return the record's fields in the schema of a table that has a `RowLayout`."""
    added = {*KAFKA_COLUMNS.names, *more}
    for name in partition_columns:
        field = schema.get(name)
        if field and name in TIME_PARTS and field.data_type == STRING and not field.nullable:
            added.add(name)
    return StructType(tuple(f for f in schema if f.name not in added))


def _kafka_times(source: pa.RecordBatch, ingestion_timestamp: int) -> Any:
    """Return Kafka's timestamps; a missing timestamp is replaced by that of a neighbor.

    Timestamps order the records of an upsert: the ingestion timestamp would order the record after
    later records of its key.
    """
    timestamps: Any = source.column("timestamp").cast(_UTC_MICROSECONDS)
    if timestamps.null_count:
        timestamps = pc.fill_null_backward(pc.fill_null_forward(timestamps))
        timestamps = pc.fill_null(timestamps, pa.scalar(ingestion_timestamp, _UTC_MICROSECONDS))
    return timestamps


def _repeated(microseconds: int, count: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(microseconds, _UTC_MICROSECONDS), count)


def _time_part(part: str, timestamps: pa.Array[Any]) -> pa.Array[Any]:
    function, width = TIME_PARTS[part]
    padded: pa.Array[Any] = pc.utf8_lpad(function(timestamps).cast(pa.string()), width, "0")
    return padded


_MAX_ESCAPED_BYTES = 3
"""Maximum number of bytes in a folder name for one byte of a string."""


def with_partition_strings(decoded: Decoded, columns: Sequence[str], *, folders: bool) -> Decoded:
    """Return decoded records with the strings of partition columns as the table stores them.

    Args:
        decoded: the records.
        columns: the table's partition columns.
        folders: whether partition values are in folder names.
    """
    for name in columns:
        at = decoded.columns.schema.get_field_index(name)
        if at < 0 or not pa.types.is_string(decoded.columns.schema.field(at).type):
            continue
        if folders:
            decoded = _refuse_long_values(decoded, name)
        values: Any = decoded.columns.column(at)
        empty = pc.equal(values, "")
        if pc.any(empty, min_count=0).as_py():
            with_nulls = pc.if_else(empty, pa.scalar(None, values.type), values)
            field = decoded.columns.schema.field(at)
            decoded = replace(decoded, columns=decoded.columns.set_column(at, field, with_nulls))
    return decoded


def _refuse_long_values(decoded: Decoded, name: str) -> Decoded:
    values: Any = decoded.columns.column(name)
    room = (MAX_FOLDER_NAME_BYTES - len(_folder(name, "x")) + 1) // _MAX_ESCAPED_BYTES
    suspects = values.filter(pc.greater(pc.binary_length(values), room)).unique()
    if not len(suspects):
        return decoded
    too_long = [
        value for value in suspects.to_pylist() if len(_folder(name, value)) > MAX_FOLDER_NAME_BYTES
    ]
    bad = pc.is_in(values, value_set=pa.array(too_long, values.type))
    reason = (
        f"field {name!r} is too long for a partition column: its folder name would have more "
        f"than {MAX_FOLDER_NAME_BYTES} bytes"
    )
    refused = decoded.positions.filter(bad)
    good = pc.invert(bad)
    return replace(
        decoded,
        columns=decoded.columns.filter(good),
        positions=decoded.positions.filter(good),
        bad_positions=pa.concat_arrays([decoded.bad_positions, refused]),
        reasons=pa.concat_arrays([decoded.reasons, pa.repeat(pa.scalar(reason), len(refused))]),
    )


def _folder(name: str, value: Any) -> bytes:
    return partition_directory([name], {name: value}).encode()
