"""Decodes batches of JSON objects to columns.

Each record either becomes a row or is refused with a reason. Arrow's JSON reader decodes a whole
batch. If the reader fails, the batch is split into blocks, and the reader decodes each block.
Blocks for which it fails are split again. If it fails for a small block, the block is decoded
record by record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from bayou.ingest.decode.columnar_validation import ColumnarValidator
from bayou.ingest.decode.columns import ColumnReader, NotColumnarError, may_hold_large_integers
from bayou.ingest.decode.exact_json import decode_exact_json
from bayou.ingest.decode.inference import (
    NestedTooDeeplyError,
    infer_arrow_field,
    merge_all,
    merge_fields,
)
from bayou.ingest.decode.json_schema import record_validator
from bayou.ingest.decode.nesting import RecordTooDeepError, check_json_nesting
from bayou.ingest.decode.unknown_fields import (
    additions,
    leaf_count,
    nested_paths,
    unknown_fields,
)
from bayou.ingest.decode.values import InvalidValueError, column_value
from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import StructField, StructType

concat_batches: Any = pa.concat_batches  # type: ignore[attr-defined]  # not in the stubs

_FAN_OUT = 16
_SMALLEST_BLOCK = 32
_MAX_REASON = 300
_MAX_NAMES = 120


class _AnyObject(msgspec.Struct):
    """A type for any JSON object. The decoder only checks that the JSON is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePlan:
    """The columns to decode, and what to do with unknown fields. Can be pickled.

    Attributes:
        discover: whether unknown fields are returned as `Decoded.new_fields`. A field is unknown if
            it isn't in `columns`. If `discover` and `ignore` are both False, records with unknown
            fields are refused.
        ignore: whether unknown fields that aren't returned as new fields are dropped. Their paths
            are returned as `Decoded.ignored`.
        needed: lowercase paths of fields that an expression reads. `ignore` drops neither these
            fields nor the objects that contain them. If such a field is unknown and isn't returned
            as a new field, the record is refused.
        widens: whether `Decoded.new_fields` also has known columns whose type in a record's Avro or
            Protobuf schema is wider.
        max_new_fields: maximum number of new fields in one record; None for no limit.
        reserved: lowercase paths, such as `name` or `place.city`, that can't become columns. If
            `ignore` doesn't drop an unknown field at such a path, the record is refused.
        over_limit: the paths in `reserved` that exceed `max-new-columns`, the limit for the new
            fields of a batch. If a record is refused because of such a path, the reason names this
            limit.
        inputs: lowercase names of top-level fields that are returned as new fields even if
            `discover` is False.
        skipped: lowercase names of top-level fields that are treated as missing.
        only: lowercase names of the top-level fields to read; all other fields are treated as
            missing. If None, all fields are read.
    """

    columns: StructType
    json_schema: str | None
    discover: bool
    reserved: frozenset[str] = frozenset()
    ignore: bool = False
    needed: frozenset[str] = frozenset()
    widens: bool = False
    max_new_fields: int | None = None
    over_limit: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    def reads(self, name: str) -> bool:
        """Whether the top-level field `name` is read; otherwise it is treated as missing."""
        name = name.lower()
        return name not in self.skipped and (self.only is None or name in self.only)

    def discovers(self, path: str, name: str) -> bool:
        """Whether an unknown field is returned as a new field.

        Args:
            path: the field's path.
            name: the name of the top-level column that contains the field.
        """
        discover = self.discover or name.lower() in self.inputs
        return discover and self.reads(name) and path.lower() not in self.reserved

    def ignores(self, column: StructField) -> bool:
        """Whether an unknown field is dropped.

        Args:
            column: the partial column of the field; see `unknown_fields`.
        """
        return self.ignore and not any(
            needed == path or (needed.startswith(f"{path}.") and not isinstance(kind, StructType))
            for needed in self.needed
            for path, kind in nested_paths(column)
        )

    def has_room_for(self, new_fields: Iterable[StructField]) -> bool:
        if self.max_new_fields is None:
            return True
        return leaf_count(StructType(tuple(new_fields))) <= self.max_new_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The decoded rows of a batch, and its records that were refused or filtered out.

    Attributes:
        columns: the rows of the accepted records, with exactly the columns of the `DecodePlan`.
        positions: for each row, the index of its record in the batch, int64.
        bad_positions: the indexes of the refused records in the batch, int64.
        reasons: for each of `bad_positions`, why the record was refused.
        new_fields: columns for fields that the plan doesn't have; only fields of accepted records
            are included. A nested field is inside its top-level column. If there are new fields,
            `columns` may lack rows. The caller then adds the fields to the plan and decodes the
            batch again.
        ignored: paths of fields that were dropped because of `DecodePlan.ignore`.
        filtered: the indexes of the records that `processing.where` filters out, int64.
    """

    columns: pa.RecordBatch
    positions: pa.Array[Any]
    bad_positions: pa.Array[Any]
    reasons: pa.Array[Any]
    new_fields: StructType
    ignored: frozenset[str] = frozenset()
    filtered: pa.Array[Any] = field(default_factory=lambda: pa.array([], pa.int64()))

    def refuse(self, mask: Any, reasons: str | Sequence[str]) -> Decoded:
        """Return the batch with more refused records: the records of the rows that `mask` selects.

        Args:
            reasons: the reason for all of these records, or a list with the reason for each.
        """
        if not pc.any(mask, min_count=0).as_py():
            return self
        refused, accepted = self.positions.filter(mask), pc.invert(mask)
        if isinstance(reasons, str):
            reasons = [reasons] * len(refused)
        return replace(
            self,
            columns=self.columns.filter(accepted),
            positions=self.positions.filter(accepted),
            bad_positions=pa.concat_arrays([self.bad_positions, refused]),
            reasons=pa.concat_arrays([self.reasons, pa.array(reasons, pa.string())]),
        )


class JsonDecoder:
    """Decodes JSON objects to the columns of a `DecodePlan`. Not thread-safe."""

    def __init__(self, plan: DecodePlan) -> None:
        self._plan = plan
        self._schema = to_arrow_schema(plan.columns)
        self._reader = ColumnReader(plan.columns)
        self._validator = None if plan.json_schema is None else record_validator(plan.json_schema)
        self._columnar_validator = (
            None
            if plan.json_schema is None or not self._reader.usable
            else ColumnarValidator.of(plan.json_schema, plan.columns)
        )
        decodes_all = self._validator is not None and self._columnar_validator is None
        self._strict = msgspec.json.Decoder() if decodes_all else _SKIPPING

    def decode(self, values: pa.Array[Any]) -> Decoded:
        """Decode the values of records, as a binary array. A null value is refused."""
        result = _Result(self._schema)
        if values.null_count:
            for position in pc.indices_nonzero(values.is_null()).to_pylist():
                result.refuse(position, "the record has no value")
            positions = pc.indices_nonzero(values.is_valid()).cast(pa.int64())
            values = values.drop_null()
        else:
            positions = arange(0, len(values))
        self._decode_block(values, positions, result)
        return result.decoded()

    def _decode_block(
        self, values: pa.Array[Any], positions: pa.Array[Any], result: _Result
    ) -> None:
        if len(values) == 0:
            return
        if self._reader.usable:
            try:
                self._decode_columnar(values, positions, result)
                return
            except (NotColumnarError, NestedTooDeeplyError):
                pass
            if len(values) > _SMALLEST_BLOCK:
                step = max(_SMALLEST_BLOCK, -(-len(values) // _FAN_OUT))
                for start in range(0, len(values), step):
                    self._decode_block(
                        values.slice(start, step), positions.slice(start, step), result
                    )
                return
        self._decode_each(values, positions, result)

    def _decode_columnar(
        self, values: pa.Array[Any], positions: pa.Array[Any], result: _Result
    ) -> None:
        try:
            # Before parsing: deeply nested brackets take quadratic time or crash the parser.
            raw: list[Any] = values.to_pylist()
            for value in raw:
                check_json_nesting(value)
            records = [self._strict.decode(v) for v in raw]
        except (
            RecordTooDeepError,
            msgspec.DecodeError,
            UnicodeDecodeError,
            RecursionError,
        ) as error:
            raise NotColumnarError from error
        self._reader.check_names(values)
        table = self._reader.parse(values)
        nested = self._reader.nested_fields(table)
        invalid = self._invalid_records(raw, records, table)
        if nested.fields:
            added = additions(self._plan.columns, nested)
            if not all(self._plan.discovers(path, partial.name) for path, partial in added):
                raise NotColumnarError
            # A record that is refused must not add a column.
            all_new = (*nested, *self._top_level_fields(table))
            if invalid or not self._plan.has_room_for(all_new):
                raise NotColumnarError
            self._reader.check(table)
            result.new_fields = merge_fields(result.new_fields, all_new)
            return  # the caller decodes the records again, with these fields in the plan
        columns = self._reader.convert(table)
        good: pa.Array[Any] | None = None
        refused: list[tuple[int, str]] = []
        if invalid:
            good = pa.array([i not in invalid for i in range(len(raw))])
            refused = [(i, self._violation(record)) for i, record in invalid.items()]
        new_fields = []
        room = self._plan.max_new_fields
        for name in table.column_names[len(self._plan.columns) :]:
            if not self._plan.reads(name):
                continue
            unknown = infer_arrow_field(name, table.schema.field(name).type)
            if unknown is None:
                continue
            if self._plan.discovers(name, name):
                room = room if room is None else room - leaf_count(unknown.data_type)
                if room is not None and room < 0:  # a record may have too many new fields
                    raise NotColumnarError
                if may_hold_large_integers(table.column(name)):
                    raise NotColumnarError
                new_fields.append(unknown)
                continue
            if _may_be_empty(table.schema.field(name).type):
                raise NotColumnarError
            present = pc.is_valid(table.column(name)).combine_chunks()
            if self._plan.ignores(unknown):
                if may_hold_large_integers(table.column(name)):  # or a number that isn't valid
                    raise NotColumnarError
                if pc.any(present).as_py():
                    result.ignored.add(name)
                continue
            reason = _unknown_reason([name], self._plan)
            known = {i for i, _ in refused}
            refused += [
                (i, reason) for i in pc.indices_nonzero(present).to_pylist() if i not in known
            ]
            good = pc.invert(present) if good is None else pc.and_not(good, present)
        if refused and new_fields:
            raise NotColumnarError  # a refused record must not add a column
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if good is not None:
            for i, reason in refused:
                result.refuse(positions[i].as_py(), reason)
            positions = positions.filter(good)
            batch = batch.filter(good) if columns else batch
        result.new_fields = merge_fields(result.new_fields, new_fields)
        result.accept(batch, positions)

    def _invalid_records(
        self, raw: Sequence[bytes], records: Sequence[Any], table: pa.Table
    ) -> dict[int, Any]:
        """Return the records that the JSON Schema refuses, by index.

        Args:
            records: the decoded records, if there is no columnar validator.
            table: the parsed records.

        Raises:
            NotColumnarError: a record can't be decoded.
        """
        if self._validator is None:
            return {}
        if self._columnar_validator is None:
            return {i: r for i, r in enumerate(records) if not self._validator.is_valid(r)}
        unsure = pc.indices_nonzero(pc.invert(self._columnar_validator.accepts(table)))
        try:
            decoded = [(i, msgspec.json.decode(raw[i])) for i in unsure.to_pylist()]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotColumnarError from error  # such as a number beyond the range of doubles
        return {i: r for i, r in decoded if not self._validator.is_valid(r)}

    def _top_level_fields(self, table: pa.Table) -> list[StructField]:
        """Return the new top-level fields in a table from `ColumnReader.parse`.

        Raises:
            NotColumnarError: the type of a new field isn't certain, or an unknown field may be a
                reason to refuse a record.
        """
        new_fields: list[StructField] = []
        for name in table.column_names[len(self._plan.columns) :]:
            column = table.column(name)
            if not self._plan.reads(name):
                continue
            unknown = infer_arrow_field(name, column.type)
            if unknown is None:
                continue
            if self._plan.discovers(name, name):
                if may_hold_large_integers(column):
                    raise NotColumnarError
                new_fields.append(unknown)
            elif not self._plan.ignores(unknown):
                raise NotColumnarError
        return new_fields

    def _decode_each(
        self, values: pa.Array[Any], positions: pa.Array[Any], result: _Result
    ) -> None:
        rows: list[list[Any]] = []
        accepted: list[int] = []
        raw: list[Any] = values.to_pylist()
        raw_positions: list[Any] = positions.to_pylist()
        for value, position in zip(raw, raw_positions, strict=True):
            try:
                rows.append(self._row(value, result))
            except InvalidValueError as error:
                result.refuse(position, str(error))
            except RecursionError:
                result.refuse(position, "not readable JSON: nested too deeply")
            else:
                accepted.append(position)
        if rows:
            columns = [
                pa.array([row[i] for row in rows], f.type) for i, f in enumerate(self._schema)
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            result.accept(batch, pa.array(accepted, pa.int64()))

    def _row(self, value: bytes, result: _Result) -> list[Any]:
        try:
            check_json_nesting(value)
            record = msgspec.json.decode(value)
        except RecordTooDeepError as error:
            raise InvalidValueError(str(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidValueError(_short(f"not valid JSON: {error}")) from error
        if not isinstance(record, dict):
            raise InvalidValueError("not a JSON object")
        if self._validator is not None and not self._validator.is_valid(record):
            raise InvalidValueError(self._violation(record))
        unknown: list[tuple[str, StructField]] = []
        ignored: set[str] = set()
        refused: set[str] = set()
        read = {name: value for name, value in record.items() if self._plan.reads(name)}
        for path, partial in unknown_fields(read, self._plan.columns):
            if self._plan.discovers(path, partial.name):
                unknown.append((path, partial))
            else:
                (ignored if self._plan.ignores(partial) else refused).add(path)
        if refused:
            raise InvalidValueError(_unknown_reason(refused, self._plan))
        result.ignored |= ignored
        if unknown and not self._plan.has_room_for(partial for _, partial in unknown):
            raise InvalidValueError(
                f"{sum(leaf_count(partial.data_type) for _, partial in unknown)} new fields, "
                f"but max-new-columns allows {self._plan.max_new_fields}"
            )
        exact = decode_exact_json(value)
        row = [column_value(exact.get(f.name), f, f.name) for f in self._plan.columns]
        limit = self._plan.max_new_fields
        if (
            limit is None or len(result.new_fields.fields) <= limit
        ):  # beyond the limit, the exact number doesn't matter
            new_fields = merge_all(partial for _, partial in unknown)
            result.new_fields = merge_fields(result.new_fields, new_fields)
        return row

    def _violation(self, record: Any) -> str:
        error = next(iter(self._validator.iter_errors(record)))  # type: ignore[union-attr]
        path = ".".join(str(p) for p in error.instance_path)
        where = f"field {path!r}: " if path else ""
        return _short(f"schema: {where}{error.message}")


_SKIPPING: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_AnyObject)


@dataclass(slots=True)
class _Result:
    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list)
    positions: list[pa.Array[Any]] = field(default_factory=list)
    bad_positions: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    new_fields: StructType = field(default_factory=StructType)
    ignored: set[str] = field(default_factory=set)

    def accept(self, batch: pa.RecordBatch, positions: pa.Array[Any]) -> None:
        self.batches.append(batch)
        self.positions.append(positions)

    def refuse(self, position: int, reason: str) -> None:
        self.bad_positions.append(position)
        self.reasons.append(reason)

    def decoded(self) -> Decoded:
        positions = pa.concat_arrays([pa.array([], pa.int64()), *self.positions])
        if len(self.schema) == 0:
            columns = _rows_without_columns(len(positions))
        elif len(self.batches) == 1:
            columns = self.batches[0]
        else:
            empty = pa.RecordBatch.from_pylist([], self.schema)
            columns = concat_batches([empty, *self.batches])
        return Decoded(
            columns=columns,
            positions=positions,
            bad_positions=pa.array(self.bad_positions, pa.int64()),
            reasons=pa.array(self.reasons, pa.string()),
            new_fields=self.new_fields,
            ignored=frozenset(self.ignored),
        )


def _rows_without_columns(count: int) -> pa.RecordBatch:
    rows: Any = pa.array([{}] * count, pa.struct([]))
    return pa.RecordBatch.from_struct_array(rows)


def _may_be_empty(kind: pa.DataType) -> bool:
    """Whether a type can have the values `[]` or `{}`, which are treated as missing."""
    return pa.types.is_nested(kind)


def _unknown_reason(names: Collection[str], plan: DecodePlan) -> str:
    shown = ", ".join(repr(n) for n in sorted(names))
    full = bool(plan.over_limit) and not plan.discover
    if full or any(n.lower() in plan.over_limit for n in names):
        shown = shown if len(shown) <= _MAX_NAMES else shown[:_MAX_NAMES] + "..."
        return _short(
            f"unknown field {shown}: the records of this batch have more new fields than "
            "max-new-columns allows"
        )
    if any(n.lower() in plan.reserved for n in names):
        return _short(
            f"unknown field {shown}: it can't be a column (a reserved name, a name that differs "
            "from a column's only in case, or invalid characters)"
        )
    return _short(f"unknown field {shown}: schema evolution is disabled or can't add it")


def _short(text: str) -> str:
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."
