"""Bounds as statistics store them, made safe to compare with: each trap has its comment here.

Which data files are known to be younger than a column's change from float to double.

Their statistics are texts of doubles, those of older files texts of floats; nothing in an `add`
tells one from the other. A file counts only if the log leaves no doubt:

- its add stands in a commit behind the newest change of this kind, and that metaData action is one
  of the commits that were replayed;
- the log names it once: an add that puts a file back, with another deletion vector or with other
  statistics, follows another action with its path;
- it is younger than that metaData action: RESTORE puts files back whose removal may be forgotten.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

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
from bayou.protocol.type_changes import TYPE_CHANGES_KEY, changed_from_float

__all__ = [
    "DatedMetadata",
    "cast_bounds",
    "double_files",
    "has_null_count",
    "one_millisecond_later",
    "parsed_texts",
    "stored_type",
    "whole_strings",
    "widened_to_double",
    "widened_to_float",
]


# A pyarrow array of one value a file, or a scalar for all. pyarrow's own types don't take both
# where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute

_MILLISECOND = 1_000  # in the microseconds of a timestamp
_EXACT_DIGITS = 12  # bounds of at most so many are taken as exact, see docs/design/decisions.md
_MOST_DOUBLE_DIGITS = 17  # of the shortest text of a double
_DOUBLE_ERROR = 2.0**-50  # relative, of a few roundings
_DECIMAL_CONTEXT = Context(prec=76)


def has_null_count(data_type: DataType) -> bool:
    """Counts of arrays and maps aren't used: writers disagree about what they count."""
    return isinstance(data_type, DecimalType) or (
        isinstance(data_type, PrimitiveType) and data_type.name not in ("void", "variant")
    )


def stored_type(data_type: DataType) -> pa.DataType | None:
    """Arrow type of a bound as it is parsed out of JSON; None for types without bounds."""
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
    """Bounds in the type wanted; one that isn't a value of a whole type is null, so unknown.

    They are rounded as the rows' values are.
    """
    if values.type == arrow_type:
        return values
    if pa.types.is_decimal(values.type) and pa.types.is_floating(arrow_type):
        return decimals_to_floats(values, arrow_type)
    if pa.types.is_integer(values.type) and pa.types.is_integer(arrow_type):
        most = (1 << (arrow_type.bit_width - 1)) - 1
        fits = pc.and_(pc.less_equal(values, most), pc.greater_equal(values, -most - 1))
        values = pc.if_else(fits, values, pa.scalar(None, values.type))
    return pc.cast(values, arrow_type, safe=not pa.types.is_floating(arrow_type))


def whole_strings(values: Datum) -> Datum:
    """Bounds of strings; null for one with U+FFFD.

    That stands for a character that was cut, in bytes or in UTF-16, and is above some characters
    and below others.
    """
    cut = pc.match_substring(values, "\ufffd")
    return pc.if_else(cut, pa.scalar(None, values.type), values)


def widened_to_float(values: Datum, *, upper: bool) -> Datum:
    """Bounds of a column that was float when some files were written.

    Such a file's bounds are the text of a float, which stands for a neighbouring double.
    """
    as_float = cast_bounds(cast_bounds(values, pa.float32()), pa.float64())
    further = pc.greater(as_float, values) if upper else pc.less(as_float, values)
    return pc.if_else(pc.fill_null(further, False), as_float, values)


def widened_to_double(values: Datum, data_type: DecimalType, *, upper: bool) -> Datum:
    """Bounds of a decimal that some writers (`deltalake`) put through a double, and round so.

    One of up to 12 significant digits is taken as exact: of values with more digits than a double
    has, one in ten thousand is rounded to so few. One of more than 17 can't come from a double.
    Saturates at the ends of the type.
    """
    precision, scale = data_type.precision, data_type.scale
    room = pa.decimal256(precision + 2, scale)
    error = pc.multiply(pc.abs(pc.cast(values, pa.float64())), _DOUBLE_ERROR)
    # Bounds are read exactly or not at all: they are apart by whole steps of the scale, or equal.
    margin = pc.cast(error, room, safe=False)
    wide = pc.cast(values, room)
    bounds = pc.add(wide, margin) if upper else pc.subtract(wide, margin)
    end = Decimal(10**precision - 1).scaleb(-scale, _DECIMAL_CONTEXT)
    limit = pa.scalar(end if upper else end.copy_negate(), bounds.type)
    beyond = pc.greater(bounds, limit) if upper else pc.less(bounds, limit)
    bounds = pc.if_else(_looks_rounded(values), pc.if_else(beyond, limit, bounds), wide)
    return pc.cast(bounds, to_arrow_type(data_type))


def _looks_rounded(values: Datum) -> Datum:
    """Whether values have 13 to 17 digits; zeros before and behind them don't count."""
    digits = pc.replace_substring_regex(pc.cast(values, pa.string()), "E.*|[-.]", "")
    count = pc.utf8_length(pc.utf8_trim(digits, characters="0"))
    return pc.and_(pc.greater(count, _EXACT_DIGITS), pc.less_equal(count, _MOST_DOUBLE_DIGITS))


def one_millisecond_later(values: Datum) -> Datum:
    """Maxima are cut to milliseconds; saturates at the end of time."""
    micros = pc.cast(values, pa.int64())
    last = (1 << 63) - 1
    later = pc.if_else(
        pc.greater(micros, last - _MILLISECOND),
        pa.scalar(last, pa.int64()),
        pc.add(micros, _MILLISECOND),
    )
    return pc.cast(later, values.type)


def parsed_texts(texts: Datum, arrow_type: Any) -> Datum:
    """Dates or timestamps out of their texts; null where a text can't be read."""
    if isinstance(texts, pa.Scalar):
        return pa.scalar(None, arrow_type)
    if not pa.types.is_string(texts.type):  # of statistics that are columns
        return cast_bounds(texts, arrow_type)
    plain = pa.timestamp("us") if pa.types.is_timestamp(arrow_type) else arrow_type
    try:
        # `Z` says UTC for a timestamp and means nothing for one without zone.
        values = pc.cast(pc.utf8_rtrim(texts, characters="Z"), plain)
    except pa.ArrowInvalid:
        return _parsed_one_by_one(texts, arrow_type)
    return pc.cast(values, arrow_type)


def _parsed_one_by_one(texts: Datum, arrow_type: Any) -> Datum:
    """For texts of several forms: offsets, as old writers have them, or what isn't a time."""
    encoded = texts.dictionary_encode()
    values = [_parsed_text(text, arrow_type) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, arrow_type).take(encoded.indices)


def _parsed_text(text: str, arrow_type: Any) -> dt.date | None:
    try:
        value = dt.datetime.fromisoformat(text)
        if pa.types.is_date(arrow_type):
            return value.date()
        if arrow_type.tz is None:
            return value.replace(tzinfo=None)
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedMetadata:
    """A metaData action and where it stands.

    Attributes:
        version: of its commit, None where several commits are in one file.
        info: of its commit, None where it has none.
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
    """Paths of the files that were written after all changes from float to double.

    Args:
        history: metaData actions of the replayed commits, newest first.
        adds: live files of these commits.
        versions: of the adds' commits, None where unknown or where a commit puts files back.
        keys: of all files that the commits name, as `AddFile.key`.
        repeated: those of them that more than one commit names.
    """
    change = _newest_change(history)
    if change is None:
        return pa.array([], pa.string())
    since, time = change
    uses = Counter(path for path, _ in keys)
    young = [
        a.path
        for a, version in zip(adds, versions, strict=True)
        if version is not None and version > since and a.modification_time > time
        if uses[a.key[0]] == 1 and a.key not in repeated
    ]
    return pa.array(sorted(young), pa.string())


def _newest_change(history: Sequence[DatedMetadata]) -> tuple[int, int] | None:
    """Version and time (ms) from which on the same columns, at least one, are changed ones."""
    if not history or TYPE_CHANGES_KEY not in history[0].metadata.schema_string:
        return None
    changed = _changed(history[0].metadata)
    found: tuple[int, int] | None = None
    for entry in history if changed else ():
        time = _time(entry.info)
        if entry.version is None or time is None or _changed(entry.metadata) != changed:
            break
        found = entry.version, time
    return found


def _changed(metadata: Metadata) -> frozenset[tuple[str, ...]]:
    try:
        return changed_from_float(StructType.from_json(metadata.schema_string))
    except SchemaJsonError:  # whoever needs the schema says so
        return frozenset()


def _time(info: CommitInfo | None) -> int | None:
    if info is None:
        return None
    return info.integer("inCommitTimestamp") or info.integer("timestamp")
