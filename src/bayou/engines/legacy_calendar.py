"""Rebases dates and timestamps of Spark's legacy calendar; sets the time zone of INT96 timestamps.

Spark 2, and later versions in LEGACY mode, count days in the hybrid calendar of
`java.util.GregorianCalendar`, which is Julian before 1582-10-15. The key-value metadata in a file's
footer determines the calendar, as in Spark's `DataSourceUtils.datetimeRebaseSpec`:

- If the metadata has no Spark version, the file is read unchanged, as in Spark 4.0 and later
  (CORRECTED mode).
- If the Spark version is before 3.0.0 (for INT96 timestamps, before 3.1.0), the file uses the
  hybrid calendar.
- If the metadata has a Spark version and the key of LEGACY mode, the file uses the hybrid calendar.

Rebasing doesn't change the displayed date and time of day.

INT96 timestamps are instants, but Arrow reads them without a time zone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from bayou.kernel.arrow.compute import pc

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_Type: TypeAlias = Any
"""A `pa.DataType`, typed as Any because mypy doesn't narrow types by `pa.types.is_struct`."""

_MARK = b"bayou.legacyCalendar"
_VERSION = b"org.apache.spark.version"
_TIME_ZONE = b"org.apache.spark.timeZone"
_LEGACY_KEYS = {
    False: (b"3.0.0", b"org.apache.spark.legacyDateTime"),
    True: (b"3.1.0", b"org.apache.spark.legacyINT96"),
}
"""The first Spark version that uses the Gregorian calendar, and the metadata key of LEGACY mode:
for INT96 timestamps (True), and for other timestamps and dates (False)."""

_CUTOVER = -141_427
"""Days from the epoch to 1582-10-15, the first day of the Gregorian calendar."""

_JULIAN_YEAR_0 = -719_470
"""Days from the epoch to March 1 of year 0 in the Julian calendar."""

_DAY = 86_400_000_000
_STANDARD_TIME = -25_567 * _DAY
"""1900-01-01 UTC in microseconds since the epoch. For earlier timestamps, Java's legacy classes use
a zone's standard offset, but java.time uses the zone's local mean time."""

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?(?::?(\d\d))?|Z|UTC|GMT|UT")


def mark_legacy_fields(schema: pa.Schema, parquet: pq.ParquetSchema) -> pa.Schema:
    """Return a file's schema with metadata on the fields that need `rebase_datetimes`."""
    footer: Any = schema.metadata or {}
    zones = [_legacy_zone(footer, int96=kind) for kind in (False, True)]
    if zones == [None, None]:
        return schema
    int96 = {i for i in range(len(parquet)) if parquet.column(i).physical_type == "INT96"}
    fields: list[pa.Field[Any]] = []
    leaf = 0
    for field in schema:
        marked_field, leaf = _marked_field(field, leaf, int96, zones)
        fields.append(marked_field)
    return pa.schema(fields, footer)


def legacy_time_zone(field: pa.Field[Any]) -> str | None:
    """Return the time zone for `rebase_datetimes`; None if the field needs no rebasing."""
    zone = (field.metadata or {}).get(_MARK)
    return None if zone is None else zone.decode(errors="replace")


def rebase_datetimes(array: Any, time_zone: str) -> Any:
    """Rebase dates or timestamps to the proleptic Gregorian calendar.

    The date and time of day stay the same. A date that doesn't exist in the Gregorian calendar
    (1000-02-29) becomes the next day.

    Args:
        time_zone: the writer's time zone, which determines the time of day of timestamps.
    """
    if pa.types.is_date(array.type):
        days = pc.cast(pc.cast(array, pa.int32()), pa.int64())
        if not _any_before(days, _CUTOVER):
            return array
        return pc.cast(pc.cast(_gregorian(days), pa.int32()), array.type)
    timestamps = pc.cast(array, pa.timestamp("us", array.type.tz))
    micros = pc.cast(timestamps, pa.int64())
    if not _any_before(micros, _STANDARD_TIME):
        return array
    standard, local_zone = _offset(time_zone)
    local = pc.add(micros, standard)
    days = _floor_divide(local, _DAY)
    local = pc.add(local, pc.multiply(pc.subtract(_gregorian(days), days), _DAY))
    if local_zone is None:
        instants = pc.subtract(local, standard)
    else:
        clocks = pc.cast(local, pa.timestamp("us"))
        zoned = pc.assume_timezone(clocks, local_zone, ambiguous="latest", nonexistent="latest")
        instants = pc.cast(zoned, pa.int64())
    old = pc.less(micros, _STANDARD_TIME)
    return pc.cast(pc.if_else(old, instants, micros), timestamps.type)


def _legacy_zone(footer: Mapping[bytes, bytes], *, int96: bool) -> str | None:
    """Return the writer's time zone if a file uses the legacy calendar; None if it doesn't."""
    version = footer.get(_VERSION)
    first_new, key = _LEGACY_KEYS[int96]
    if version is None or (version >= first_new and key not in footer):
        return None
    return footer.get(_TIME_ZONE, b"UTC").decode(errors="replace")


def _marked_field(
    field: pa.Field[Any], leaf: int, int96: Collection[int], zones: list[str | None]
) -> tuple[pa.Field[Any], int]:
    """Mark a field, or its nested fields, for rebasing.

    Args:
        leaf: index of the field's first leaf column.
        int96: indices of the INT96 leaf columns.
        zones: two results of `_legacy_zone`: index 0 for other columns, index 1 for INT96 columns.

    Returns:
        The marked field, and the index of the first leaf column of the next field.
    """
    kind: _Type = field.type
    types = pa.types
    if types.is_struct(kind):
        fields = []
        for i in range(kind.num_fields):
            child, leaf = _marked_field(kind.field(i), leaf, int96, zones)
            fields.append(child)
        return field.with_type(pa.struct(fields)), leaf
    if types.is_list(kind) or types.is_large_list(kind):
        element, leaf = _marked_field(kind.value_field, leaf, int96, zones)
        list_type: Any = pa.large_list if types.is_large_list(kind) else pa.list_
        return field.with_type(list_type(element)), leaf
    if types.is_map(kind):
        key, leaf = _marked_field(kind.key_field, leaf, int96, zones)
        value, leaf = _marked_field(kind.item_field, leaf, int96, zones)
        return field.with_type(pa.map_(key, value)), leaf
    old = leaf in int96
    zone = zones[old]
    # TIMESTAMP_NTZ is newer than the new calendar, and always written in it.
    dated = types.is_date(kind) or (types.is_timestamp(kind) and (old or kind.tz is not None))
    if zone is not None and dated:
        metadata: Any = field.metadata or {}
        field = field.with_metadata({**metadata, _MARK: zone.encode()})
    return field, leaf + 1


def _any_before(values: Any, bound: int) -> bool:
    minimum = pc.min(values).as_py()
    return minimum is not None and minimum < bound


def _gregorian(days: Any) -> Any:
    """Convert days since the epoch from the hybrid to the Gregorian calendar; dates stay the same.

    In the computation, years begin in March, so a leap day is the last day of a year. Three of four
    century years have no leap day in the Gregorian calendar.
    """
    since = pc.subtract(days, _JULIAN_YEAR_0)
    year = _floor_divide(pc.add(pc.multiply(since, 4), 3), 1_461)
    centuries = pc.subtract(_floor_divide(year, 400), _floor_divide(year, 100))
    return pc.if_else(pc.less(days, _CUTOVER), pc.add(days, pc.add(centuries, 2)), days)


def _floor_divide(values: Any, divisor: int) -> Any:
    quotient = pc.divide(values, divisor)
    below = pc.less(pc.subtract(values, pc.multiply(quotient, divisor)), 0)
    return pc.subtract(quotient, pc.cast(below, pa.int64()))


def _offset(time_zone: str) -> tuple[int, str | None]:
    """Return a zone's standard UTC offset in microseconds, and the name of the zone.

    The name is None if `time_zone` is UTC or a fixed offset such as `+01:00`.
    """
    fixed = _OFFSET.fullmatch(time_zone)
    if fixed is not None:
        sign, hours, minutes, seconds = fixed.groups()
        offset = dt.timedelta(
            hours=int(hours or 0), minutes=int(minutes or 0), seconds=int(seconds or 0)
        )
        return int(offset.total_seconds()) * (-1 if sign == "-" else 1) * 1_000_000, None
    winter_and_summer = [dt.date(2024, 1, 1), dt.date(2024, 7, 1)]
    clocks = pc.cast(pa.array(winter_and_summer), pa.timestamp("us"))
    instants = pc.assume_timezone(clocks, time_zone)
    offsets = pc.subtract(pc.cast(clocks, pa.int64()), pc.cast(instants, pa.int64()))
    return pc.min(offsets).as_py(), time_zone


_INSTANT = pa.timestamp("us", "UTC")


def int96_leaves(footer: pq.FileMetaData) -> frozenset[int]:
    """Return the indices of the INT96 leaf columns."""
    columns: Any = footer.schema
    return frozenset(
        i for i in range(footer.num_columns) if columns.column(i).physical_type == "INT96"
    )


def with_int96_timestamps(schema: pa.Schema, leaves: frozenset[int]) -> pa.Schema:
    """Return a file's Arrow schema in which the given INT96 leaf columns are timestamps in UTC."""
    if not leaves:
        return schema
    numbers = iter(range(1 << 30))
    return pa.schema([_field(f, leaves, numbers) for f in schema])


def _field(field: pa.Field[Any], leaves: frozenset[int], numbers: Iterator[int]) -> pa.Field[Any]:
    return field.with_type(_type(field.type, leaves, numbers))


def _type(kind: Any, leaves: frozenset[int], numbers: Iterator[int]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_field(f, leaves, numbers) for f in kind])
    if pa.types.is_map(kind):
        key = _field(kind.key_field, leaves, numbers)
        item: Any = _field(kind.item_field, leaves, numbers)
        return pa.map_(key.type, item)
    if pa.types.is_list(kind):
        element: Any = _field(kind.value_field, leaves, numbers)
        return pa.list_(element)
    leaf: pa.DataType = _INSTANT if next(numbers) in leaves else kind
    return leaf
