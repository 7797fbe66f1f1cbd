"""Records as changes of keys: rows that are there, keys that are gone.

A record without a value, a tombstone, deletes the key that its Kafka key names: a JSON object with
the key columns, on its own or in the `payload` of a Connect envelope; for one key column also its
bare text. In Debezium's envelope (`before`, `after`, `op`, alone or as the `payload` of a schema)
`after` is the row, and with `op: d` the key is that of `before`, or of the Kafka key; the tombstone
that Debezium sends behind a delete says nothing new and is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.ingest.decode import Decoded, DecodePlan, JsonDecoder
from bayou.ingest.decode.formats import RecordDecoder
from bayou.ingest.decode.nesting import RecordTooDeepError, check_json_nesting
from bayou.ingest.upsert_keys import UpsertKeys
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import STRING, StructType

__all__ = ["Change", "ChangeReader"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array

_FLOATS = {pa.float32(): ("float", 1 << 24), pa.float64(): ("double", 1 << 53)}
"""Their names, and from where on one stands for several whole numbers, which would be one key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Records of one kind.

    Attributes:
        source: the records, columns of the Kafka source.
        decoded: their columns; of deletes all but key and ordering column are null.
        deleted: whether they delete their keys.
    """

    source: pa.RecordBatch
    decoded: Decoded
    deleted: bool


class ChangeReader:
    """Takes batches apart. Not for several threads at once.

    Args:
        decoder: of the rows.
        columns: the record's fields that have a column.
        debezium: whether records are in Debezium's envelope.
    """

    def __init__(
        self, decoder: RecordDecoder, columns: StructType, keys: UpsertKeys, *, debezium: bool
    ) -> None:
        self._decoder = decoder
        self._keys = keys
        self._columns = columns
        self._debezium = debezium
        wanted = dict.fromkeys((*keys.columns, *([keys.ordering] if keys.ordering else [])))
        self._narrow = StructType(tuple(f for f in columns if f.name in wanted))
        self._key_decoder = JsonDecoder(
            DecodePlan(columns=self._narrow, json_schema=None, discover=False)
        )
        (only,) = keys.columns if len(keys.columns) == 1 else (None,)
        field = None if only is None else columns.get(only)
        self._text_key = field is not None and field.data_type == STRING

    def read(self, source: pa.RecordBatch) -> Iterator[Change]:
        """Rows, then deletes, then what is neither."""
        sorted_out = _Sorted()
        values: list[Any] = source.column("value").to_pylist() if self._debezium else []
        if self._debezium:
            for position, value in enumerate(values):
                sorted_out.take(
                    position, lambda at=position, v=value: self._enveloped(source, at, v)
                )
        else:
            value = source.column("value")
            if not value.null_count:
                yield self._rows(source, value)
                return
            present = source.filter(value.is_valid())
            if present.num_rows:
                yield self._rows(present, present.column("value"))
            for position in pc.indices_nonzero(value.is_null()).to_pylist():
                sorted_out.take(
                    position, lambda at=position: (None, self._of_kafka_key(source, at))
                )
        if sorted_out.rows:
            records = source.take(pa.array(sorted_out.row_positions, pa.int64()))
            yield self._rows(records, pa.array(sorted_out.rows, pa.binary()))
        if sorted_out.gone:
            records = source.take(pa.array(sorted_out.gone_positions, pa.int64()))
            yield self._deletes(records, pa.array(sorted_out.gone, pa.binary()))
        if sorted_out.reasons:
            yield Change(
                source=source,
                decoded=_refused(self._columns, sorted_out.bad_positions, sorted_out.reasons),
                deleted=False,
            )

    def _rows(self, source: pa.RecordBatch, values: pa.Array[Any]) -> Change:
        decoded = self._with_keys(self._decoder.decode(values))
        return Change(source=source, decoded=decoded, deleted=False)

    def _with_keys(self, decoded: Decoded) -> Decoded:
        """The records whose key is one; the others become dead letters."""
        if decoded.new_fields.fields:
            return decoded
        keys = [n for n in self._keys.columns if self._columns.get(n) is not None]
        columns = [decoded.columns.column(name) for name in keys]
        keyless = [column.is_null() for column in columns]
        if keyless:
            reason = f"no value in the key ({', '.join(self._keys.columns)})"
            decoded = _without(decoded, reduce(pc.and_, keyless), reason)
        for name in keys:
            column = decoded.columns.column(name)
            if self._decoder.reads_json and column.type in _FLOATS:
                kind, exact = _FLOATS[column.type]
                large = pc.fill_null(pc.greater_equal(pc.abs(column), exact), False)
                reason = (
                    f"the key {name!r} is a {kind}, which holds no whole "
                    f"number from {exact} on exactly: give it another type by the schema-file"
                )
                decoded = _without(decoded, large, reason)
        return decoded

    def _deletes(self, source: pa.RecordBatch, values: pa.Array[Any]) -> Change:
        narrow = self._key_decoder.decode(values)
        count = len(narrow.positions)
        columns = [
            narrow.columns.column(f.name)
            if self._narrow.get(f.name) is not None
            else pa.nulls(count, f.type)
            for f in to_arrow_schema(self._columns)
        ]
        decoded = Decoded(
            columns=pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(self._columns)),
            positions=narrow.positions,
            bad_positions=narrow.bad_positions,
            reasons=narrow.reasons,
            new_fields=StructType(),
        )
        return Change(source=source, decoded=self._with_keys(decoded), deleted=True)

    def _enveloped(
        self, source: pa.RecordBatch, at: int, value: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        """The row, or the key that is gone; neither for what says nothing."""
        if value is None:
            return None, None
        _check_nesting(value)
        envelope = _decoded(_ENVELOPE, value, "not Debezium's envelope")
        if _said(envelope.payload) and not envelope.op:
            envelope = _decoded(_ENVELOPE, envelope.payload, "not Debezium's envelope")
        match envelope.op:
            case "c" | "u" | "r":
                if not _said(envelope.after):
                    raise _UnfitError(f"op {envelope.op!r} without after")
                return bytes(envelope.after), None
            case "d":
                if _said(envelope.before):
                    before = self._flat(
                        _decoded(_OBJECT, envelope.before, "before isn't an object")
                    )
                    told = [before.get(name) for name in self._keys.columns]
                    named = all(name in before for name in self._keys.columns)
                    # By its replica identity a database may leave columns out as nulls.
                    if named and any(value is not None for value in told):
                        return None, self._picked(before)
                return None, self._of_kafka_key(source, at)
            case None | "":
                raise _UnfitError("not Debezium's envelope: it has no op")
            case op:
                raise _UnfitError(f"op {op!r} isn't a change of a row")

    def _of_kafka_key(self, source: pa.RecordBatch, at: int) -> bytes:
        """A JSON object with the key columns."""
        columns = self._keys.columns
        if any(self._columns.get(name) is None for name in columns):
            raise _UnfitError("it deletes a key, and no record has told yet what a key is")
        key: Any = source.column("key")[at].as_py()
        if key is None:
            raise _UnfitError("the record has neither value nor key")
        if key[:1] == b"\0":
            raise _UnfitError(
                "the Kafka key of a record without value is neither JSON nor text, as with a "
                "schema registry's header"
            )
        _check_nesting(key)
        text = _utf8(key)
        try:
            told: Any = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            told = text
        if isinstance(told, dict) and "payload" in told and columns[0] not in self._flat(told):
            told = told["payload"]
            text = "" if told is None else msgspec.json.encode(told).decode()
        if isinstance(told, dict):
            fields = self._flat(told)
            missing = [name for name in columns if name not in fields]
            if missing:
                raise _UnfitError(f"the Kafka key of a record without value has no {missing[0]!r}")
            return self._picked(fields)
        if len(columns) > 1:
            raise _UnfitError(
                "the Kafka key of a record without value isn't a JSON object with "
                f"{', '.join(columns)}"
            )
        if self._text_key and text and not isinstance(told, str):
            told = text
        if told is None:
            raise _UnfitError(f"the Kafka key of a record without value isn't {columns[0]!r}")
        return self._picked({columns[0]: told})

    def _flat(self, told: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._decoder.flat(told)
        except ValueError as error:
            raise _UnfitError(str(error)) from error

    def _picked(self, told: dict[str, Any]) -> bytes:
        picked = {n: told[n] for n in self._narrow.names if n in told}
        try:
            return msgspec.json.encode(self._decoder.with_timestamps(picked))
        except ValueError as error:
            raise _UnfitError(str(error)) from error


class _UnfitError(Exception):
    """A record that changes no key; the text says why."""


class _Envelope(msgspec.Struct):
    op: str | None = None
    before: msgspec.Raw = msgspec.Raw()  # immutable
    after: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()


_ENVELOPE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Envelope)
_OBJECT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(dict[str, Any])


class _Sorted:
    """Records by what they are."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.row_positions: list[int] = []
        self.gone: list[bytes] = []
        self.gone_positions: list[int] = []
        self.reasons: list[str] = []
        self.bad_positions: list[int] = []

    def take(self, position: int, look: Any) -> None:
        try:
            row, gone = look()
        except _UnfitError as error:
            self.reasons.append(str(error))
            self.bad_positions.append(position)
            return
        if row is not None:
            self.rows.append(row)
            self.row_positions.append(position)
        elif gone is not None:
            self.gone.append(gone)
            self.gone_positions.append(position)


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


def _said(part: msgspec.Raw) -> bool:
    return bytes(part) not in (b"", b"null")


def _without(decoded: Decoded, refused: Any, reason: str) -> Decoded:
    """The records for which `refused` is false; the others come back with the reason."""
    if not pc.any(refused).as_py():
        return decoded
    bad = decoded.positions.filter(refused)
    kept = pc.invert(refused)
    return Decoded(
        columns=decoded.columns.filter(kept),
        positions=decoded.positions.filter(kept),
        bad_positions=pa.concat_arrays([decoded.bad_positions, bad]),
        reasons=pa.concat_arrays([decoded.reasons, pa.repeat(pa.scalar(reason), len(bad))]),
        new_fields=decoded.new_fields,
        ignored=decoded.ignored,
    )


def _refused(columns: StructType, positions: list[int], reasons: list[str]) -> Decoded:
    return Decoded(
        columns=pa.RecordBatch.from_pylist([], to_arrow_schema(columns)),
        positions=pa.array([], pa.int64()),
        bad_positions=pa.array(positions, pa.int64()),
        reasons=pa.array(reasons, pa.string()),
        new_fields=StructType(),
    )
