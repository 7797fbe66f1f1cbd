"""Which columns a table may name for statistics: `delta.dataSkippingStatsColumns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayou.errors import TablePropertyError
from bayou.protocol.properties import SKIPPING_COLUMNS
from bayou.protocol.property_strings import column_paths
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

__all__ = ["check_statistics_columns"]

_WITHOUT_BOUNDS: tuple[DataType, ...] = (BINARY, BOOLEAN, VARIANT, VOID)


def check_statistics_columns(
    table: str,
    schema: StructType,
    partition_columns: Sequence[str],
    configuration: Mapping[str, str],
) -> None:
    """Check the columns that a table names for statistics, as delta-spark does.

    Within a struct any type is taken: of those without an order nulls are counted.

    Raises:
        TablePropertyError: an unknown column, a partition column, one of a type that has no
            bounds, or one that is named twice (itself, or a struct around it).
    """
    text = SKIPPING_COLUMNS.read(configuration)
    found: list[tuple[str, ...]] = []
    for path in () if text is None else column_paths(text):
        name = ".".join(path)
        known = schema.find(path)
        if known is None:
            raise _refused(
                table,
                f"there is no column {name!r} outside of arrays and maps; the table has "
                f"{', '.join(schema.names)}",
            )
        names, data_type = known
        if len(names) == 1 and names[0] in partition_columns:
            raise _refused(
                table, f"{name!r} is a partition column, whose values the log has anyway"
            )
        if len(names) == 1 and (
            isinstance(data_type, ArrayType | MapType) or data_type in _WITHOUT_BOUNDS
        ):
            raise _refused(table, f"{name!r} has type {data_type}, which has no bounds")
        if any(names[: len(p)] == p or p[: len(names)] == names for p in found):
            raise _refused(table, f"{name!r} is named twice")
        found.append(names)


def _refused(table: str, reason: str) -> TablePropertyError:
    key = SKIPPING_COLUMNS.key
    return TablePropertyError(
        f"{table}: table property {key!r} can't be set so: {reason}.", table=table, key=key
    )
