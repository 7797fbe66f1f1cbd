"""Clustering columns as a transaction sets them (PROTOCOL.md, Clustered Table)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bayou.errors import SchemaError
from bayou.kernel.table_features.column_mapping import physical_path
from bayou.kernel.transaction_state import TransactionState
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

__all__ = ["checked_clustering_columns", "clustering_configuration"]

_MOST_COLUMNS = 4


def checked_clustering_columns(
    table: str,
    schema: StructType,
    configuration: Mapping[str, str],
    partition_columns: Sequence[str],
    paths: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], ...]:
    """The paths as the schema spells them.

    Raises:
        SchemaError: an unknown column, one named twice, more than four, one of a type that has no
            bounds or that the statistics leave out, or a partitioned table.
    """
    if paths and partition_columns:
        raise SchemaError(
            f"{table} can't be clustered: it is partitioned by ({', '.join(partition_columns)}), "
            "and a table is one or the other (DELTA_CLUSTER_BY_WITH_PARTITIONED_BY).",
            table=table,
        )
    if len(paths) > _MOST_COLUMNS:
        raise SchemaError(
            f"{table} can't be clustered by {len(paths)} columns; {_MOST_COLUMNS} are the most "
            "(DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS).",
            table=table,
        )
    kept = TransactionState(
        table=table, schema=schema, partition_columns=(), configuration=configuration
    ).statistics_columns()
    found: list[tuple[str, ...]] = []
    for path in paths:
        known = schema.find(path)
        if known is None:
            text = ".".join(path)
            raise SchemaError(
                f"{table} can't be clustered by {text!r}: there is no such column.",
                table=table,
                column=text,
            )
        names, data_type = known
        text = ".".join(names)
        if names in found:
            raise SchemaError(
                f"{table} can't be clustered by column {text!r} twice.", table=table, column=text
            )
        if isinstance(data_type, StructType | ArrayType | MapType) or data_type in _WITHOUT_BOUNDS:
            raise SchemaError(
                f"{table} can't be clustered by column {text!r}: its type, {data_type}, has no "
                "bounds to tell files apart by (DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED).",
                table=table,
                column=text,
            )
        if not _has_statistics(schema, names, kept):
            raise SchemaError(
                f"{table} can't be clustered by column {text!r}, whose statistics aren't kept "
                "(DELTA_CLUSTERING_COLUMN_MISSING_STATS). Move it among the first columns, raise "
                "delta.dataSkippingNumIndexedCols, or name it in delta.dataSkippingStatsColumns.",
                table=table,
                column=text,
            )
        found.append(names)
    return tuple(found)


def clustering_configuration(schema: StructType, paths: Sequence[tuple[str, ...]]) -> str:
    """What stands in the domain `delta.clustering`: physical names, JSON.

    Args:
        schema: with ids and physical names, where the table has column mapping.
        paths: as the schema spells them.
    """
    columns = [list(physical_path(schema, path)) for path in paths]
    value = {"clusteringColumns": columns, "domainName": "delta.clustering"}
    return msgspec.json.encode(value).decode()


_WITHOUT_BOUNDS: tuple[DataType, ...] = (BINARY, BOOLEAN, VARIANT, VOID)


def _has_statistics(schema: StructType, path: tuple[str, ...], kept: Sequence[str]) -> bool:
    physical = physical_path(schema, path)
    return any(".".join(physical[:end]) in kept for end in range(1, len(physical) + 1))
