"""Conversion of bounds from statistics so that comparisons are safe; comments explain the traps.

`double_files` returns the data files that were written after the last change of a column from float
to double. Their statistics are written from doubles, those of older files from floats, and an `add`
doesn't say which. A file is included only if the log proves it:

- Its add is in a commit after the newest change, and the commit of that change was replayed.
- The log has only one action for its path. An add that updates a file, for example its deletion
  vector or statistics, follows another action with the same path.
- Its modification time is after the change, because RESTORE adds old files whose removal the log
  may no longer contain.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.casts import decimals_to_floats
from bayou.protocol.actions import AddFile, CommitInfo, Metadata
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    PrimitiveType,
    SchemaJsonError,
    StructType,
)
from bayou.protocol.type_changes import TYPE_CHANGES_KEY, columns_widened_from_float

__all__ = [
    "DatedMetadata",
    "add_millisecond",
    "cast_bounds",
    "double_files",
    "drop_truncated_strings",
    "has_null_count",
    "parse_times",
    "stored_type",
    "widen_decimal_bounds",
    "widen_float_bounds",
]


# An array with one value per file, or a scalar for all files. pyarrow's type stubs accept only one
# of them where its functions accept both.
Datum: TypeAlias = Any
_MILLISECOND = 1_000  # in microseconds
_EXACT_DIGITS = 12  # bounds with at most this many digits are exact, see docs/design/decisions.md
_MAX_DOUBLE_DIGITS = 17  # in the shortest representation of a double
_DOUBLE_ERROR = 2.0**-50  # relative error of a few roundings
_DECIMAL_CONTEXT = Context(prec=76)


def has_null_count(data_type: DataType) -> bool:
    """Whether null counts of a type are used; writers differ for arrays and maps."""
    return isinstance(data_type, DecimalType) or (
        isinstance(data_type, PrimitiveType) and data_type.name not in ("void", "variant")
    )


def stored_type(data_type: DataType) -> pa.DataType | None:
    """Arrow type of a bound that is parsed from JSON; None for types without bounds."""
    if isinstance(data_type, DecimalType):
        return to_arrow_type(data_type)
    if data_type in (BINARY, BOOLEAN):
        return None
    if data_type in (FLOAT, DOUBLE):
        return pa.float64()
    if data_type in (STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return pa.string()
    return pa.int64()


def cast_bounds(values: Datum, arrow_type: pa.DataType) -> Datum:
    """Cast bounds as the values of rows are cast. An integer bound out of range becomes null."""
    if values.type == arrow_type:
        return values
    if pa.types.is_decimal(values.type) and pa.types.is_floating(arrow_type):
        return decimals_to_floats(values, arrow_type)
    if pa.types.is_integer(values.type) and pa.types.is_integer(arrow_type):
        max_value = (1 << (arrow_type.bit_width - 1)) - 1
        fits = pc.and_(pc.less_equal(values, max_value), pc.greater_equal(values, -max_value - 1))
        values = pc.if_else(fits, values, pa.scalar(None, values.type))
    return pc.cast(values, arrow_type, safe=not pa.types.is_floating(arrow_type))


def drop_truncated_strings(values: Datum) -> Datum:
    """Bounds of strings; null for a bound with U+FFFD.

    U+FFFD replaces a truncated character, in bytes or in UTF-16, and may sort before or after it.
    """
    is_truncated = pc.match_substring(values, "\ufffd")
    return pc.if_else(is_truncated, pa.scalar(None, values.type), values)


def widen_float_bounds(values: Datum, *, upper: bool) -> Datum:
    """Widen bounds of a column that was float when some files were written.

    A bound in such a file is the decimal representation of a float, which differs slightly from the
    float's exact value as a double.
    """
    as_float = cast_bounds(cast_bounds(values, pa.float32()), pa.float64())
    is_wider = pc.greater(as_float, values) if upper else pc.less(as_float, values)
    return pc.if_else(pc.fill_null(is_wider, False), as_float, values)


def widen_decimal_bounds(values: Datum, data_type: DecimalType, *, upper: bool) -> Datum:
    """Widen bounds of a decimal, because some writers (`deltalake`) round them to a double.

    A bound with up to 12 significant digits is taken as exact: only one in ten thousand values with
    more digits is rounded to so few. A bound with more than 17 digits can't come from a double. The
    result is limited to the range of the type.
    """
    precision, scale = data_type.precision, data_type.scale
    wide_type = pa.decimal256(precision + 2, scale)
    error = pc.multiply(pc.abs(pc.cast(values, pa.float64())), _DOUBLE_ERROR)
    # The margin may be truncated to the scale, because bounds and values are multiples of it.
    margin = pc.cast(error, wide_type, safe=False)
    wide = pc.cast(values, wide_type)
    bounds = pc.add(wide, margin) if upper else pc.subtract(wide, margin)
    max_value = Decimal(10**precision - 1).scaleb(-scale, _DECIMAL_CONTEXT)
    limit = pa.scalar(max_value if upper else max_value.copy_negate(), bounds.type)
    beyond = pc.greater(bounds, limit) if upper else pc.less(bounds, limit)
    bounds = pc.if_else(_looks_rounded(values), pc.if_else(beyond, limit, bounds), wide)
    return pc.cast(bounds, to_arrow_type(data_type))


def _looks_rounded(values: Datum) -> Datum:
    """Whether values have 13 to 17 digits, without leading and trailing zeros."""
    digits = pc.replace_substring_regex(pc.cast(values, pa.string()), "E.*|[-.]", "")
    count = pc.utf8_length(pc.utf8_trim(digits, characters="0"))
    return pc.and_(pc.greater(count, _EXACT_DIGITS), pc.less_equal(count, _MAX_DOUBLE_DIGITS))


def add_millisecond(values: Datum) -> Datum:
    """Add a millisecond to maxima, because they are truncated to milliseconds. Saturates."""
    micros = pc.cast(values, pa.int64())
    max_value = (1 << 63) - 1
    later = pc.if_else(
        pc.greater(micros, max_value - _MILLISECOND),
        pa.scalar(max_value, pa.int64()),
        pc.add(micros, _MILLISECOND),
    )
    return pc.cast(later, values.type)


def parse_times(strings: Datum, arrow_type: Any) -> Datum:
    """Parse dates or timestamps; null for an invalid string."""
    if isinstance(strings, pa.Scalar):
        return pa.scalar(None, arrow_type)
    if not pa.types.is_string(strings.type):  # the statistics are columns
        return cast_bounds(strings, arrow_type)
    zoneless = pa.timestamp("us") if pa.types.is_timestamp(arrow_type) else arrow_type
    try:
        # `Z` means UTC for a timestamp, and nothing for a timestamp without zone.
        values = pc.cast(pc.utf8_rtrim(strings, characters="Z"), zoneless)
    except pa.ArrowInvalid:
        return _parse_one_by_one(strings, arrow_type)
    return pc.cast(values, arrow_type)


def _parse_one_by_one(strings: Datum, arrow_type: Any) -> Datum:
    """Parse strings of several formats, such as offsets of old writers; null if invalid."""
    encoded = strings.dictionary_encode()
    values = [_parse_time(value, arrow_type) for value in encoded.dictionary.to_pylist()]
    return pa.array(values, arrow_type).take(encoded.indices)


def _parse_time(string: str, arrow_type: Any) -> dt.date | None:
    try:
        value = dt.datetime.fromisoformat(string)
        if pa.types.is_date(arrow_type):
            return value.date()
        if arrow_type.tz is None:
            return value.replace(tzinfo=None)
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedMetadata:
    """A `metaData` action and its commit.

    Attributes:
        version: version of the commit, None if the action is in a log compaction file.
        metadata: the action.
        info: `commitInfo` of the commit, None for none.
    """

    version: int | None
    metadata: Metadata
    info: CommitInfo | None


def double_files(
    history: Sequence[DatedMetadata],
    adds: Sequence[AddFile],
    versions: Sequence[int | None],
    keys: Collection[tuple[str, str | None]],
    repeated: Collection[tuple[str, str | None]],
) -> pa.Array[Any]:
    """Paths of the files that were written after the last change from float to double.

    Args:
        history: `metaData` actions of the replayed commits, newest first.
        adds: live files of these commits.
        versions: versions of the adds' commits, None if unknown or for a RESTORE.
        keys: `AddFile.key` of all files in the commits.
        repeated: the keys that occur in more than one commit.
    """
    change = _newest_change(history)
    if change is None:
        return pa.array([], pa.string())
    since, time = change
    uses = Counter(path for path, _ in keys)
    newer = [
        a.path
        for a, version in zip(adds, versions, strict=True)
        if version is not None and version > since and a.modification_time > time
        if uses[a.key[0]] == 1 and a.key not in repeated
    ]
    return pa.array(sorted(newer), pa.string())


def _newest_change(history: Sequence[DatedMetadata]) -> tuple[int, int] | None:
    """Version and time (ms) of the newest change from float to double; None for none."""
    if not history or TYPE_CHANGES_KEY not in history[0].metadata.schema_string:
        return None
    changed = _changed_columns(history[0].metadata)
    change: tuple[int, int] | None = None
    for entry in history if changed else ():
        time = _time(entry.info)
        if entry.version is None or time is None or _changed_columns(entry.metadata) != changed:
            break
        change = entry.version, time
    return change


def _changed_columns(metadata: Metadata) -> frozenset[tuple[str, ...]]:
    try:
        return columns_widened_from_float(StructType.from_json(metadata.schema_string))
    except SchemaJsonError:  # reported when the schema is needed
        return frozenset()


def _time(info: CommitInfo | None) -> int | None:
    if info is None:
        return None
    return info.integer("inCommitTimestamp") or info.integer("timestamp")
