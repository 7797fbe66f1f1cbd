"""Validates clustering columns and encodes them as JSON (PROTOCOL.md, Clustered Table)."""

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
    GeographyType,
    GeometryType,
    MapType,
    StructType,
)

_MAX_COLUMNS = 4


def resolve_clustering_columns(
    table: str,
    schema: StructType,
    configuration: Mapping[str, str],
    partition_columns: Sequence[str],
    paths: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], ...]:
    """Validate clustering columns, and return their paths as spelled in the schema."""
    if paths and partition_columns:
        raise SchemaError(
            f"{table} can't be clustered, because it is partitioned by "
            f"({', '.join(partition_columns)}) (DELTA_CLUSTER_BY_WITH_PARTITIONED_BY). Use either "
            "partition columns or clustering columns.",
            table=table,
        )
    if len(paths) > _MAX_COLUMNS:
        raise SchemaError(
            f"{table} can't be clustered by {len(paths)} columns: the maximum is {_MAX_COLUMNS} "
            "(DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS). Use fewer columns.",
            table=table,
        )
    statistics_columns = TransactionState(
        table=table, schema=schema, partition_columns=(), configuration=configuration
    ).statistics_columns()
    columns: list[tuple[str, ...]] = []
    for path in paths:
        match = schema.find(path)
        if match is None:
            column = ".".join(path)
            raise SchemaError(
                f"{table} can't be clustered by {column!r}: the column doesn't exist. The table's "
                f"columns are {', '.join(schema.names)}.",
                table=table,
                column=column,
            )
        names, data_type = match
        column = ".".join(names)
        if names in columns:
            raise SchemaError(
                f"{table} can't be clustered by column {column!r} twice. Remove the duplicate.",
                table=table,
                column=column,
            )
        if isinstance(data_type, _NESTED_OR_GEOSPATIAL) or data_type in _WITHOUT_BOUNDS:
            raise SchemaError(
                f"{table} can't be clustered by column {column!r}: file statistics have no "
                f"minimum and maximum for its type {data_type} "
                "(DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED). Use another column.",
                table=table,
                column=column,
            )
        if not _has_statistics(schema, names, statistics_columns):
            raise SchemaError(
                f"{table} can't be clustered by column {column!r}: no statistics are collected for "
                "it (DELTA_CLUSTERING_COLUMN_MISSING_STATS). Move it to the front of the schema, "
                "raise delta.dataSkippingNumIndexedCols, or add it to "
                "delta.dataSkippingStatsColumns.",
                table=table,
                column=column,
            )
        columns.append(names)
    return tuple(columns)


def clustering_configuration(schema: StructType, paths: Sequence[tuple[str, ...]]) -> str:
    """Return the configuration of the domain `delta.clustering` as JSON, with physical names."""
    columns = [list(physical_path(schema, path)) for path in paths]
    value = {"clusteringColumns": columns, "domainName": "delta.clustering"}
    return msgspec.json.encode(value).decode()


_NESTED_OR_GEOSPATIAL = (StructType, ArrayType, MapType, GeometryType, GeographyType)
_WITHOUT_BOUNDS: tuple[DataType, ...] = (BINARY, BOOLEAN, VARIANT, VOID)


def _has_statistics(
    schema: StructType, path: tuple[str, ...], statistics_columns: Sequence[str]
) -> bool:
    physical = physical_path(schema, path)
    return any(
        ".".join(physical[:end]) in statistics_columns for end in range(1, len(physical) + 1)
    )
