"""Decodes the records of an upsert. A record is a new row for its key, or a delete of its key.

A record without a value (a tombstone) deletes the row whose key is in the record's Kafka key. The
Kafka key is a JSON object with the key columns, or a Connect envelope with this object in
`payload`. If there is only one key column, the Kafka key can also be the column's value. With
`decode-key`, the Kafka key has a schema registry's header and is Avro, Protobuf or JSON. It is
converted to JSON.

With `decode: debezium`, a value is Debezium's envelope (`before`, `after`, `op`), or an object with
the envelope in `payload`. If `op` is `d`, the record deletes the row whose key is in `before`, or
in the Kafka key if `before` doesn't have the key. Otherwise, `after` is the new row.

Debezium sends a tombstone after each delete. The tombstone deletes the row again, because log
compaction may have removed the delete. A tombstone is skipped if its Kafka key isn't an object with
valid key columns. If an ordering column is configured, all tombstones of Debezium are skipped. They
have no ordering value, so they could delete newer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import msgspec
import pyarrow as pa

from bayou.ingest.decode import Decoded, DecodePlan, JsonDecoder
from bayou.ingest.decode.exact_json import decode_exact_json, encode_exact_json, exact_decoder
from bayou.ingest.decode.formats import RecordDecoder
from bayou.ingest.decode.nesting import RecordTooDeepError, check_json_nesting
from bayou.ingest.upsert_order import UpsertKeys
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import STRING, StructType

_FLOATS = {pa.float32(): ("float", 1 << 24), pa.float64(): ("double", 1 << 53)}
"""For each floating-point type, a pair: its name, and the limit below which integers are exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Records of one batch with the same kind of change: new rows, or deletes of keys.

    Attributes:
        source: the records, with the columns of the Kafka source.
        decoded: the columns of the records. For deletes, only the key columns and the ordering
            column have values.
        deleted: True if each record deletes its key, False if each record is a new row.
    """

    source: pa.RecordBatch
    decoded: Decoded
    deleted: bool


class ChangeReader:
    """Splits batches of records into new rows and deletes. Not thread-safe.

    Args:
        columns: the columns that store record fields.
        decode: function that decodes new rows. Its arguments are the values of the rows, and the
            batch of their records, with the columns of the Kafka source.
        decode_keys: decoder for the key columns and the ordering column. If set, a record that
            `decode` filters out deletes its key. If None, such a record is ignored.
        debezium: whether the values are in Debezium's envelope.
    """

    def __init__(
        self,
        decoder: RecordDecoder,
        columns: StructType,
        keys: UpsertKeys,
        *,
        decode: Callable[[pa.Array[Any], pa.RecordBatch], Decoded],
        decode_keys: RecordDecoder | None = None,
        debezium: bool,
    ) -> None:
        self._decoder = decoder
        self._decode = decode
        self._decode_keys = decode_keys
        self._keys = keys
        self._columns = columns
        self._debezium = debezium
        self._key_columns = key_columns(columns, keys)
        self._key_decoder = JsonDecoder(
            DecodePlan(columns=self._key_columns, json_schema=None, discover=False)
        )
        (only,) = keys.columns if len(keys.columns) == 1 else (None,)
        field = None if only is None else columns.get(only)
        self._is_string_key = field is not None and field.data_type == STRING

    def read(self, source: pa.RecordBatch) -> Iterator[Change]:
        """Yield the changes of a batch: first new rows, then deletes, then refused records.

        Refused records are neither valid rows nor valid deletes, and become dead letters. If the
        batch has no records of a kind, the `Change` for this kind is empty or missing.
        """
        split = _Split()
        values: list[Any] = source.column("value").to_pylist() if self._debezium else []
        if self._debezium:
            for position, value in enumerate(values):
                split.add(position, lambda at=position, v=value: self._enveloped(source, at, v))
        else:
            value = source.column("value")
            if not value.null_count:
                yield from self._rows(source, value)
                return
            present = source.filter(value.is_valid())
            if present.num_rows:
                yield from self._rows(present, present.column("value"))
            for position in pc.indices_nonzero(value.is_null()).to_pylist():
                split.add(position, lambda at=position: (None, self._kafka_key(source, at)))
        if split.rows:
            records = source.take(pa.array(split.row_positions, pa.int64()))
            yield from self._rows(records, pa.array(split.rows, pa.binary()))
        if split.deleted:
            records = source.take(pa.array(split.deleted_positions, pa.int64()))
            deletes = self._deletes(records, pa.array(split.deleted, pa.binary()))
            yield _without_refused_tombstones(deletes) if self._debezium else deletes
        if split.reasons:
            yield Change(
                source=source,
                decoded=_refused(self._columns, split.bad_positions, split.reasons),
                deleted=False,
            )

    def _rows(self, source: pa.RecordBatch, values: pa.Array[Any]) -> Iterator[Change]:
        decoded = self._with_keys(self._decode(values, source))
        filtered = decoded.filtered
        if self._decode_keys is None or decoded.new_fields.fields or not len(filtered):
            yield Change(source=source, decoded=decoded, deleted=False)
            return
        keys = self._deleted_keys(self._decode_keys, values.take(filtered))
        # A filtered record without a valid key can't have a row, so it isn't refused.
        without_key = filtered.take(keys.bad_positions)
        yield Change(source=source, decoded=replace(decoded, filtered=without_key), deleted=False)
        deletes = replace(
            keys,
            positions=filtered.take(keys.positions),
            bad_positions=pa.array([], pa.int64()),
            reasons=pa.array([], pa.string()),
            ignored=frozenset(),
        )
        yield Change(source=source, decoded=deletes, deleted=True)

    def _with_keys(self, decoded: Decoded) -> Decoded:
        """Refuse the records without a valid key."""
        if decoded.new_fields.fields:
            return decoded
        keys = [n for n in self._keys.columns if self._columns.get(n) is not None]
        columns = [decoded.columns.column(name) for name in keys]
        # Without a key column, because no record has contained one yet, no record has a key.
        keyless: Any = pa.repeat(pa.scalar(True), len(decoded.positions))
        keyless = reduce(pc.and_, (column.is_null() for column in columns), keyless)
        reason = f"no value in the key ({', '.join(self._keys.columns)})"
        decoded = decoded.refuse(keyless, reason)
        for name in keys:
            column = decoded.columns.column(name)
            if self._decoder.reads_json and column.type in _FLOATS:
                kind, exact = _FLOATS[column.type]
                large = pc.fill_null(pc.greater_equal(pc.abs(column), exact), False)
                reason = (
                    f"the key {name!r} is a {kind}, which isn't exact for integers from {exact} "
                    "on: set another type in the schema-file"
                )
                decoded = decoded.refuse(large, reason)
        return decoded

    def _deletes(self, source: pa.RecordBatch, values: pa.Array[Any]) -> Change:
        keys = self._deleted_keys(self._key_decoder, values)
        return Change(source=source, decoded=keys, deleted=True)

    def _deleted_keys(self, decoder: RecordDecoder | JsonDecoder, values: pa.Array[Any]) -> Decoded:
        """Decode the values of deletes, and refuse deletes without a valid key.

        The result has all columns, but only the key columns and the ordering column have values. If
        no record has contained a key column yet, deletes have no effect and aren't refused.
        """
        keys = self._with_all_columns(decoder.decode(values))
        is_known = any(self._columns.get(name) is not None for name in self._keys.columns)
        return self._with_keys(keys) if is_known else keys

    def _with_all_columns(self, keys: Decoded) -> Decoded:
        """Add all other columns, filled with nulls, to the decoded key and ordering columns."""
        count = len(keys.positions)
        columns = [
            keys.columns.column(f.name)
            if self._key_columns.get(f.name) is not None
            else pa.nulls(count, f.type)
            for f in to_arrow_schema(self._columns)
        ]
        schema = to_arrow_schema(self._columns)
        return replace(keys, columns=pa.RecordBatch.from_arrays(columns, schema=schema))

    def _enveloped(
        self, source: pa.RecordBatch, at: int, value: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        """Return the new row and the deleted key in Debezium's envelope, each as JSON or None.

        A record has only one of the two. A skipped tombstone has neither.

        Args:
            at: the index of the record in `source`.
            value: the value of the record; None for a tombstone.
        """
        if value is None:
            if self._keys.ordering:
                return None, None
            try:
                return None, self._kafka_key(source, at, only_object=True)
            except _UnfitError:
                return None, None
        _check_nesting(value)
        envelope = _decoded(_ENVELOPE, value, _NO_ENVELOPE)
        if _has_value(envelope.payload) and not envelope.op:
            envelope = _decoded(_ENVELOPE, envelope.payload, _NO_ENVELOPE)
        match envelope.op:
            case "c" | "u" | "r":
                if not _has_value(envelope.after):
                    raise _UnfitError(f"the envelope has op {envelope.op!r} but no field 'after'")
                return bytes(envelope.after), None
            case "d":
                if _has_value(envelope.before):
                    before = self._flat(
                        _decoded(_OBJECT, envelope.before, "the field 'before' isn't an object")
                    )
                    values = [before.get(name) for name in self._keys.columns]
                    complete = all(name in before for name in self._keys.columns)
                    # `before` may lack the key or have nulls, depending on the replica identity.
                    if complete and any(value is not None for value in values):
                        return None, self._encode_key(before)
                return None, self._kafka_key(source, at)
            case None | "":
                raise _UnfitError(f"{_NO_ENVELOPE}: it has no field 'op'")
            case op:
                raise _UnfitError(f"op {op!r} isn't supported; the supported ops are c, r, u and d")

    def _kafka_key(self, source: pa.RecordBatch, at: int, *, only_object: bool = False) -> bytes:
        """Convert the Kafka key of a record to a JSON object with the key columns.

        Args:
            at: the index of the record in `source`.
            only_object: if true, a Kafka key that isn't a JSON object is an error.

        Raises:
            _UnfitError: the Kafka key isn't valid.
        """
        columns = self._keys.columns
        if any(self._columns.get(name) is None for name in columns):
            raise _UnfitError(
                "the record deletes a key, but the types of the key columns aren't known, because "
                "no earlier record had all key columns"
            )
        key: Any = source.column("key")[at].as_py()
        if key is None:
            raise _UnfitError("the record deletes a row, but has no Kafka key")
        try:
            fields = tuple(f for f in self._key_columns if f.name in columns)
            key = self._decoder.key_json(key, fields)
        except ValueError as error:
            raise _UnfitError(f"the Kafka key of a delete can't be read: {error}") from error
        if key[:1] == b"\0":
            raise _UnfitError(
                "the record has no value, and its Kafka key is neither JSON nor a string. The key "
                "seems to start with a schema registry's header; set decode-key"
            )
        _check_nesting(key)
        string = _utf8(key)
        try:
            value: Any = decode_exact_json(string)
        except (msgspec.DecodeError, RecursionError):
            value = string
        if isinstance(value, dict) and "payload" in value and columns[0] not in self._flat(value):
            value = value["payload"]
            string = "" if value is None else encode_exact_json(value).decode()
        if isinstance(value, dict):
            record = self._flat(value)
            missing = [name for name in columns if name not in record]
            if missing:
                raise _UnfitError(f"the Kafka key of a delete has no {missing[0]!r}")
            return self._encode_key(record)
        if len(columns) > 1 or only_object:
            raise _UnfitError(
                f"the Kafka key of a delete isn't a JSON object with {', '.join(columns)}"
            )
        if self._is_string_key and string and not isinstance(value, str):
            value = string
        if value is None:
            raise _UnfitError(
                "the record has no value, and its Kafka key is null. To delete a row, the key "
                f"must contain the row's {columns[0]!r}"
            )
        return self._encode_key({columns[0]: value})

    def _flat(self, record: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._decoder.flat(record)
        except ValueError as error:
            raise _UnfitError(str(error)) from error

    def _encode_key(self, record: dict[str, Any]) -> bytes:
        key = {n: record[n] for n in self._key_columns.names if n in record}
        try:
            return encode_exact_json(self._decoder.with_timestamps(key))
        except ValueError as error:
            raise _UnfitError(str(error)) from error


def key_columns(columns: StructType, keys: UpsertKeys) -> StructType:
    """Select the key columns and the ordering column from `columns`."""
    names = (*keys.columns, *([keys.ordering] if keys.ordering else []))
    return StructType(tuple(f for f in columns if f.name in names))


class _UnfitError(Exception):
    """A record is neither a valid row nor a valid delete; the message is the reason."""


class _Envelope(msgspec.Struct):
    op: str | None = None
    before: msgspec.Raw = msgspec.Raw()  # immutable
    after: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()


_ENVELOPE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Envelope)
_OBJECT = exact_decoder(dict[str, Any])
_NO_ENVELOPE = "the value isn't Debezium's envelope"


class _Split:
    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.row_positions: list[int] = []
        self.deleted: list[bytes] = []
        self.deleted_positions: list[int] = []
        self.reasons: list[str] = []
        self.bad_positions: list[int] = []

    def add(self, position: int, read: Any) -> None:
        try:
            row, deleted = read()
        except _UnfitError as error:
            self.reasons.append(str(error))
            self.bad_positions.append(position)
            return
        if row is not None:
            self.rows.append(row)
            self.row_positions.append(position)
        elif deleted is not None:
            self.deleted.append(deleted)
            self.deleted_positions.append(position)


def _decoded(decoder: msgspec.json.Decoder[Any], value: Any, what: str) -> Any:
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _UnfitError(f"{what}: {error}"[:300]) from error


def _check_nesting(text: bytes) -> None:
    try:
        check_json_nesting(text)
    except RecordTooDeepError as error:
        raise _UnfitError(str(error)) from error


def _utf8(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise _UnfitError("the Kafka key isn't UTF-8") from error


def _has_value(part: msgspec.Raw) -> bool:
    return bytes(part) not in (b"", b"null")


def _without_refused_tombstones(deletes: Change) -> Change:
    """Remove Debezium's tombstones without a valid key, which would become dead letters.

    They aren't needed: the delete that Debezium sends before a tombstone removes the row or becomes
    a dead letter.
    """
    decoded, values = deletes.decoded, deletes.source.column("value")
    refused = values.take(decoded.bad_positions).is_valid()
    return replace(
        deletes,
        decoded=replace(
            decoded,
            bad_positions=decoded.bad_positions.filter(refused),
            reasons=decoded.reasons.filter(refused),
        ),
    )


def _refused(columns: StructType, positions: list[int], reasons: list[str]) -> Decoded:
    return Decoded(
        columns=pa.RecordBatch.from_pylist([], to_arrow_schema(columns)),
        positions=pa.array([], pa.int64()),
        bad_positions=pa.array(positions, pa.int64()),
        reasons=pa.array(reasons, pa.string()),
        new_fields=StructType(),
    )
