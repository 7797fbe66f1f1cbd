"""Decodes JSON records to columns with Arrow's JSON reader, many records at a time.

This is the fast path. The slow path decodes records one by one and has the same result. If the fast
path can't decode a record of a block, it raises `NotColumnarError`. The caller then splits the
block, so that only a few records need the slow path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.json

from bayou.ingest.decode.inference import infer_arrow_field, merge_all
from bayou.ingest.decode.json_schema import is_json_text
from bayou.ingest.decode.unknown_fields import additions
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema, to_arrow_type
from bayou.protocol.schema import ArrayType, DataType, StructField, StructType

read_json: Any = pyarrow.json.read_json  # the stubs don't accept buffers

_YEAR = r"(\d{3}[1-9]|\d{2}[1-9]\d|\d[1-9]\d{2}|[1-9]\d{3})"  # not 0000
_DATE_TIME = (
    f"^{_YEAR}" + r"-(0[1-9]|1[0-2])-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$"
)
_DATE = f"^{_YEAR}" + r"-(0[1-9]|1[0-2])-\d\d$"
_LONG_INTEGER = re.compile(rb"[0-9]{16}[ \t\r\n]*[,}\]]")
"""Regular expression that matches the end of an integer with at least 16 digits.

It can also match other text.
"""
_PARSED = {"long", "integer", "short", "byte", "double", "string", "boolean"}
_PATTERNS = {"timestamp": _DATE_TIME, "date": _DATE}
_SAMPLED_RECORDS = 32
_MAX_VALUES = 20_000_000
"""Maximum number of values of unknown fields in a parsed block, which take about 16 bytes each."""
_FIRST, _LAST = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)


class NotColumnarError(Exception):
    """A block has a record that `ColumnReader` can't decode; the slow path must decode it."""


class ColumnReader:
    """Reads blocks of records with one schema.

    Attributes:
        usable: whether each column has a type that Arrow's reader can decode. If False, the methods
            can't be called.
    """

    def __init__(self, columns: StructType) -> None:
        self._columns = columns
        self.usable = all(_usable(f) for f in columns)
        if self.usable:
            self._parse_schema = pa.schema(
                [pa.field(f.name, _parse_type(f.data_type)) for f in columns]
            )

    def parse(self, values: pa.Array[Any]) -> pa.Table:
        """Parse records; return the schema's columns, followed by the columns of unknown fields.

        A struct in the result can have more fields than the struct in the schema; see
        `nested_fields`.

        Args:
            values: the records as a binary array without nulls.

        Raises:
            NotColumnarError: a record isn't a JSON object, or the JSON type of a field differs from
                the schema.
        """
        lines = _joined(values)
        self._lines = lines
        try:
            table: pa.Table = read_json(
                pa.BufferReader(lines),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self._parse_schema, unexpected_field_behavior="infer"
                ),
            )
            table.validate()  # of nulls in an array, the reader can return too few
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise NotColumnarError from error
        if table.num_rows != len(values):
            raise NotColumnarError
        return table

    def check_names(self, values: pa.Array[Any]) -> None:
        """Check a block whose records may have many different unknown names, such as ids.

        Arrow's reader creates a column for each name, with a value for each record. A large block
        could therefore exceed the memory. The number of names is estimated from a sample of the
        records. The sample is split into two halves, and only names that occur in the first half
        alone are counted. A name that most records have isn't counted, even if its value is null.

        Raises:
            NotColumnarError: the block is probably too large, or `parse` would raise the error.
        """
        count = len(values)
        if count <= 2 * _SAMPLED_RECORDS:
            return
        sample = values.take(pa.array(range(0, count, count // _SAMPLED_RECORDS), pa.int64()))
        half = len(sample) // 2
        leaves = _leaves(self.parse(sample).schema)
        if (leaves - _leaves(self._parse_schema)) * count // half * count <= _MAX_VALUES:
            return
        added = leaves - _leaves(self.parse(sample.slice(half)).schema)
        if added * count // half * count > _MAX_VALUES:
            raise NotColumnarError

    def nested_fields(self, table: pa.Table) -> StructType:
        """Return the nested fields of a parsed table that aren't in the schema.

        The result has each new nested field inside its top-level column, without the known fields
        of this column.

        Raises:
            NotColumnarError: the type of a new nested field can't be inferred.
        """
        partials = []
        for field in self._parse_schema:
            parsed = table.schema.field(field.name).type
            if parsed == field.type:
                continue
            whole = infer_arrow_field(field.name, parsed)
            new = [] if whole is None else list(additions(self._columns, (whole,)))
            if not new:
                raise NotColumnarError
            if may_hold_large_integers(table.column(field.name)):
                raise NotColumnarError
            partials += [partial for _, partial in new]
        return merge_all(partials)

    def convert(self, table: pa.Table) -> list[pa.Array[Any]]:
        """Convert the schema's columns of a parsed table to their final types.

        Raises:
            NotColumnarError: a string isn't a valid value of its date or timestamp column, a number
                exceeds the range of doubles, or a double may be a rounded integer.
        """
        columns = self._exact_columns(table)
        return [_converted(c, f.data_type) for c, f in zip(columns, self._columns, strict=True)]

    def check(self, table: pa.Table) -> None:
        """Raise the errors that `convert` raises. Structs in the table may have unknown fields."""
        for column, field in zip(self._exact_columns(table), self._columns, strict=True):
            _check(column, field.data_type)

    def _exact_columns(self, table: pa.Table) -> list[pa.Array[Any]]:
        columns = [_one_chunk(table.column(f.name)) for f in self._columns]
        if any(map(_may_be_rounded, columns)) and _LONG_INTEGER.search(self._lines):
            raise NotColumnarError
        return columns


def _leaves(fields: Iterable[pa.Field[Any]]) -> int:
    """Return the number of leaf fields of a schema or a struct."""
    return sum(map(_leaves_of_type, (field.type for field in fields)))


def _leaves_of_type(kind: pa.DataType) -> int:
    if isinstance(kind, pa.StructType):
        return _leaves(kind)
    if isinstance(kind, pa.ListType):
        return _leaves_of_type(kind.value_type)
    return 1


def may_hold_large_integers(column: Any) -> bool:
    """Whether a column has doubles of at least 2**63, which Arrow returns for large integers."""
    return _has_doubles_from(column, 2.0**63)


def _may_be_rounded(column: Any) -> bool:
    """Whether a column has doubles of at least 2**53, which can be rounded integers."""
    return _has_doubles_from(column, 2.0**53)


def _has_doubles_from(column: Any, limit: float) -> bool:
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.greater_equal(pc.abs(column), limit), min_count=0).as_py())
    if pa.types.is_list(kind):
        return _has_doubles_from(pc.list_flatten(column), limit)
    if pa.types.is_struct(kind):
        return any(_has_doubles_from(values, limit) for values in _fields(column))
    return False


def _fields(column: Any) -> list[Any]:
    """Return the fields of a struct column, with its nulls.

    `struct_field` takes as long for one field as for all fields.
    """
    array: Any = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    fields: list[Any] = array.flatten()
    return fields


def _joined(values: pa.Array[Any]) -> pa.Buffer:
    """Join records with line breaks, for Arrow's JSON reader.

    Each record must start with `{` and end with `}`, so that it contains at least one object. If
    the reader then returns as many objects as there are records, each record is exactly one object.

    Raises:
        NotColumnarError: a record starts or ends with another character, or isn't UTF-8.
    """
    if not (
        pc.all(pc.starts_with(values, b"{"), min_count=0).as_py()
        and pc.all(pc.ends_with(values, b"}"), min_count=0).as_py()
    ):
        raise NotColumnarError
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise NotColumnarError from error  # not UTF-8
    offsets = pa.array([0, len(values)], pa.int32())
    lines: Any = pc.binary_join(pa.ListArray.from_arrays(offsets, values), b"\n")
    joined: pa.Buffer = lines[0].as_buffer()
    return joined


def _usable(field: StructField) -> bool:
    return not is_json_text(field) and _usable_type(field.data_type)


def _usable_type(kind: DataType) -> bool:
    match kind:
        case StructType():
            return bool(kind.fields) and all(_usable(f) for f in kind)
        case ArrayType():
            return _usable_type(kind.element_type)
        case _:
            return str(kind) in _PARSED or str(kind) in _PATTERNS


def _parse_type(kind: DataType) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct([pa.field(f.name, _parse_type(f.data_type)) for f in kind])
        case ArrayType():
            return pa.list_(_parse_type(kind.element_type))
        case _:
            return pa.string() if str(kind) in _PATTERNS else to_arrow_type(kind)


def _converted(column: pa.Array[Any], kind: DataType) -> pa.Array[Any]:
    if not _needs_check(kind):
        return column.cast(to_arrow_type(kind))
    if str(kind) == "double":
        if pc.any(pc.is_inf(column), min_count=0).as_py():  # Arrow reads 400 digits as infinity
            raise NotColumnarError
        return column
    if isinstance(kind, StructType):
        assert isinstance(column, pa.StructArray)
        return pa.StructArray.from_arrays(
            [_converted(column.field(i), f.data_type) for i, f in enumerate(kind)],
            fields=list(to_arrow_schema(kind)),
            mask=column.is_null(),
        )
    if isinstance(kind, ArrayType):
        assert isinstance(column, pa.ListArray)
        return pa.ListArray.from_arrays(
            column.offsets,
            _converted(column.values, kind.element_type),
            type=to_arrow_type(kind),
            mask=column.is_null() if column.null_count else None,
        )
    if not pc.all(pc.match_substring_regex(column, _PATTERNS[str(kind)]), min_count=0).as_py():
        raise NotColumnarError
    try:
        result: pa.Array[Any] = column.cast(to_arrow_type(kind))
    except pa.ArrowInvalid as error:
        raise NotColumnarError from error
    if pa.types.is_timestamp(result.type):  # converted to UTC, the year may be 0 or 10000
        first, last = (pa.scalar(at, result.type) for at in (_FIRST, _LAST))
        within = pc.and_(pc.greater_equal(result, first), pc.less_equal(result, last))
        if not pc.all(within, min_count=0).as_py():
            raise NotColumnarError
    return result


def _check(column: Any, kind: DataType) -> None:
    match kind:
        case StructType():
            for field in kind:
                _check(column.field(field.name), field.data_type)
        case ArrayType():
            _check(column.values, kind.element_type)
        case _:
            if _needs_check(kind):
                _converted(column, kind)


def _needs_check(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_needs_check(f.data_type) for f in kind)
        case ArrayType():
            return _needs_check(kind.element_type)
        case _:
            return str(kind) in (*_PATTERNS, "double")


def _one_chunk(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    combined: Any = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    array: pa.Array[Any] = combined
    return array
