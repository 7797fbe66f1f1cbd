"""The rows of a target table: record fields and Kafka metadata.

| column | type | |
|---|---|---|
| the record's fields | from the JSON Schema, or inferred | nullable |
| `_kafka_topic`, `_kafka_partition`, `_kafka_offset` | string, int, long | not null |
| `_ingestion_timestamp` | timestamp | when the batch was read, not null |
| `_processed_at` | timestamp | when the row was written, not null |
| `_kafka_timestamp` | timestamp | see `kafka_times`; optional, but required in upserts |
| `_kafka_key`, `_kafka_headers` | binary, array of (`key`, `value`) | optional |
| `_kafka_key_json` | string | the decoded key as JSON, optional |
| `year`, `month`, `day` | strings `2024`, `01`, `05` | of the event time, UTC; not null |

`year`, `month` and `day` are added if they are partition columns and records have no field of this
name.

Partition columns: Delta's log can't distinguish an empty string from null. Empty strings and empty
binary values of partition columns become null before an upsert compares rows with the table.
Without this, `''` would never match the table's row, which has null. A record becomes a dead letter
if the value of a partition column is too long for a folder name. A record also becomes a dead
letter if the value is binary but not UTF-8, because the log stores strings.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.metadata_columns import HEADERS, KAFKA_COLUMNS, RECORD_COLUMNS
from bayou.ingest.batch.record_timestamps import ORDER_TIME
from bayou.ingest.dead_letters.records import header_lists
from bayou.ingest.decode import Decoded
from bayou.ingest.decode.formats import RecordDecoder
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema, to_arrow_type
from bayou.protocol.file_names import MAX_FOLDER_NAME_BYTES, partition_directory
from bayou.protocol.schema import STRING, StructField, StructType

TIME_PARTS = {"year": (pc.year, 4), "month": (pc.month, 2), "day": (pc.day, 2)}
"""Partition columns that are derived from the event time. For each column: the function of pyarrow
that returns the number, and the number of digits."""
_KAFKA_KEY = "_kafka_key"
_KEY_JSON = "key_json"
_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """The columns of a target table. Can be pickled.

    Attributes:
        record: the columns of all record fields that are decoded.
        time_parts: which of year, month and day are derived from the event time.
        event_time: the column with the event time; None if the record's Kafka timestamp is used.
        metadata_columns: names of the optional columns in `RECORD_COLUMNS` that the table has.
        unstored: lowercase names of columns in `record` that aren't stored in the table.
        derived: the columns that SQL expressions define (`processing.columns`).
        dropped: columns of the table whose fields are now removed by `processing.drop`. They are
            null in new rows.
    """

    record: StructType
    time_parts: tuple[str, ...]
    event_time: str | None
    metadata_columns: tuple[str, ...] = ()
    unstored: frozenset[str] = frozenset()
    derived: StructType = field(default_factory=StructType)
    dropped: StructType = field(default_factory=StructType)

    @classmethod
    def of(
        cls,
        record: StructType,
        partition_columns: Sequence[str],
        event_time: str | None,
        metadata_columns: Sequence[str] = (),
        *,
        unstored: frozenset[str] = frozenset(),
        derived: StructType | None = None,
        dropped: StructType | None = None,
    ) -> RowLayout:
        derived = StructType() if derived is None else derived
        parts = tuple(
            c
            for c in partition_columns
            if c in TIME_PARTS
            and derived.get(c) is None
            and (record.get(c) is None or c in unstored)
        )
        return cls(
            record=record,
            time_parts=parts,
            event_time=event_time,
            metadata_columns=tuple(metadata_columns),
            unstored=unstored,
            derived=derived,
            dropped=StructType() if dropped is None else dropped,
        )

    @property
    def stored(self) -> StructType:
        """The columns of `record` that are stored in the table."""
        return StructType(tuple(f for f in self.record if f.name.lower() not in self.unstored))

    @property
    def inputs(self) -> StructType:
        """The unstored columns of `record`, which only expressions or `event-time` read."""
        return StructType(tuple(f for f in self.record if f.name.lower() in self.unstored))

    @property
    def schema(self) -> StructType:
        parts = tuple(
            StructField(name=p, data_type=STRING, nullable=False) for p in self.time_parts
        )
        metadata = tuple(f for f in RECORD_COLUMNS if f.name in self.metadata_columns)
        fields = (*self.stored, *self.derived, *self.dropped)
        return StructType((*fields, *KAFKA_COLUMNS, *metadata, *parts))

    @property
    def reserved_names(self) -> frozenset[str]:
        """Lowercase names of all columns of the table; new record fields can't have these names."""
        return frozenset(n.lower() for n in self.schema.names)

    def rows(
        self, decoded: Decoded, source: pa.RecordBatch, ingestion_timestamp: int
    ) -> pa.RecordBatch:
        """Build the table's rows from a decoded batch, which includes the derived columns.

        `ingestion_timestamp` is in microseconds since the epoch.
        """
        count = len(decoded.positions)
        from_kafka = source.select(["topic", "partition", "offset"]).take(decoded.positions)
        kafka_time = kafka_times(source, ingestion_timestamp).take(decoded.positions)
        columns = [
            *(decoded.columns.column(f.name) for f in (*self.stored, *self.derived)),
            *(_nulls(count, to_arrow_type(f.data_type)) for f in self.dropped),
            from_kafka.column("topic").cast(pa.string()),
            from_kafka.column("partition").cast(pa.int32()),
            from_kafka.column("offset").cast(pa.int64()),
            _repeated(ingestion_timestamp, count),
            _repeated(time.time_ns() // 1000, count),
        ]
        columns += [
            self._metadata(f.name, source.take(decoded.positions), kafka_time)
            for f in RECORD_COLUMNS
            if f.name in self.metadata_columns
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
            case "_kafka_key_json":
                return records.column(_KEY_JSON)
            case _:
                headers = records.column("headers")
                if pa.types.is_list(headers.type):
                    return headers.cast(to_arrow_type(HEADERS))
                return header_lists(headers, to_arrow_type(HEADERS))

    def _event_time(self, decoded: Decoded, kafka_time: pa.Array[Any]) -> pa.Array[Any]:
        if self.event_time is None:
            return kafka_time
        values = decoded.columns.column(self.event_time).cast(pa.timestamp("us"))
        result: pa.Array[Any] = pc.coalesce(values.cast(_UTC_MICROSECONDS), kafka_time)
        return result


def with_key_json(
    decoded: Decoded,
    source: pa.RecordBatch,
    layout: RowLayout,
    decoder: RecordDecoder,
    *,
    deleted: bool = False,
) -> tuple[Decoded, pa.RecordBatch]:
    """If the layout has `_kafka_key_json`, add a column with the decoded Kafka keys as JSON.

    If a key can't be decoded, the record becomes a dead letter. If `deleted` is true, the column is
    null for this key instead.

    Args:
        decoded: the decoded batch.
        source: the records, with the columns of the Kafka source.
        deleted: whether the records delete rows of an upsert.

    Returns:
        The decoded batch without the new dead letters, and the records with the new column.
    """
    if "_kafka_key_json" not in layout.metadata_columns:
        return decoded, source
    keys: list[Any] = source.column("key").to_pylist()
    positions: list[Any] = decoded.positions.to_pylist()
    texts: list[str | None] = [None] * len(keys)
    reasons: dict[str, list[int]] = {}
    for position in positions:
        try:
            texts[position] = decoder.key_text(keys[position])
        except ValueError as error:
            if deleted:
                continue
            reasons.setdefault(f"the Kafka key: {error}", []).append(position)
    for reason, bad in reasons.items():
        refused = pc.is_in(decoded.positions, value_set=pa.array(bad, decoded.positions.type))
        decoded = decoded.refuse(refused, reason)
    return decoded, source.append_column(_KEY_JSON, pa.array(texts, pa.string()))


def record_field_columns(
    schema: StructType, partition_columns: Sequence[str], metadata_columns: Sequence[str] = ()
) -> StructType:
    """Return the columns of a table that contain record fields.

    These are all columns except Kafka metadata columns and partition columns from the event time.
    """
    added = {*KAFKA_COLUMNS.names, *metadata_columns}
    for name in partition_columns:
        field = schema.get(name)
        if field and name in TIME_PARTS and field.data_type == STRING and not field.nullable:
            added.add(name)
    return StructType(tuple(f for f in schema if f.name not in added))


def kafka_times(source: pa.RecordBatch, ingestion_timestamp: int) -> Any:
    """Return the Kafka timestamps of records, and fill in the missing timestamps.

    A missing timestamp is copied from the nearest earlier record that has one, or else from the
    nearest later record. If no record of `source` has a timestamp, the ingestion timestamp is used.
    For an upsert, the result is the column that `RecordTimes.fill` has added.
    """
    if ORDER_TIME in source.schema.names:
        return source.column(ORDER_TIME)
    timestamps: Any = source.column("timestamp").cast(_UTC_MICROSECONDS)
    if timestamps.null_count:
        timestamps = pc.fill_null_backward(pc.fill_null_forward(timestamps))
        timestamps = pc.fill_null(timestamps, pa.scalar(ingestion_timestamp, _UTC_MICROSECONDS))
    return timestamps


def _nulls(count: int, kind: Any) -> pa.Array[Any]:
    values: pa.Array[Any] = pa.nulls(count, kind)
    return values


def _repeated(microseconds: int, count: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(microseconds, _UTC_MICROSECONDS), count)


def _time_part(part: str, timestamps: pa.Array[Any]) -> pa.Array[Any]:
    function, width = TIME_PARTS[part]
    padded: pa.Array[Any] = pc.utf8_lpad(function(timestamps).cast(pa.string()), width, "0")
    return padded


_MAX_ESCAPED_BYTES = 3
"""Maximum number of bytes to which one byte of a partition value is escaped in a folder name."""


def with_partition_strings(
    decoded: Decoded, source: pa.RecordBatch, columns: Sequence[str], *, folders: bool
) -> Decoded:
    """Replace empty strings and empty binary values of partition columns by null.

    If the table can't store the partition values of a record, the record becomes a dead letter.

    Args:
        folders: whether the folder names of data files contain the partition values. If True, the
            length of the values is limited.
    """
    for name in columns:
        at = decoded.columns.schema.get_field_index(name)
        if name == _KAFKA_KEY and at < 0:
            decoded = _refuse_values(decoded, name, _keys(decoded, source), folders=folders)
            continue
        if at < 0 or not _is_string_or_binary(decoded.columns.schema.field(at).type):
            continue
        decoded = _refuse_values(decoded, name, decoded.columns.column(at), folders=folders)
        values: Any = decoded.columns.column(at)
        empty = pc.equal(pc.binary_length(values), 0)
        if pc.any(empty, min_count=0).as_py():
            with_nulls = pc.if_else(empty, pa.scalar(None, values.type), values)
            field = decoded.columns.schema.field(at)
            decoded = replace(decoded, columns=decoded.columns.set_column(at, field, with_nulls))
    return decoded


def _is_string_or_binary(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _keys(decoded: Decoded, source: pa.RecordBatch) -> Any:
    return source.column("key").cast(pa.binary()).take(decoded.positions)


def _refuse_values(decoded: Decoded, name: str, values: Any, *, folders: bool) -> Decoded:
    if pa.types.is_binary(values.type):
        bad = [value for value in values.unique().to_pylist() if not _is_utf8(value)]
        refused = pc.is_in(values, value_set=pa.array(bad, values.type))
        reason = f"field {name!r} isn't UTF-8, which a binary partition column requires"
        decoded = decoded.refuse(refused, reason)
        values = values.filter(pc.invert(refused)).cast(pa.string())
    if not folders:
        return decoded
    room = (MAX_FOLDER_NAME_BYTES - len(_folder(name, "x")) + 1) // _MAX_ESCAPED_BYTES
    suspects = values.filter(pc.greater(pc.binary_length(values), room)).unique()
    too_long = [
        value for value in suspects.to_pylist() if len(_folder(name, value)) > MAX_FOLDER_NAME_BYTES
    ]
    reason = (
        f"field {name!r} is too long for a partition column: its folder name would have more "
        f"than {MAX_FOLDER_NAME_BYTES} bytes"
    )
    return decoded.refuse(pc.is_in(values, value_set=pa.array(too_long, values.type)), reason)


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _folder(name: str, value: Any) -> bytes:
    return partition_directory([name], {name: value}).encode()
