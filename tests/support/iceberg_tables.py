"""Tables with Iceberg metadata: rows and files as pyiceberg reads them, and as Bayou reads them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel.iceberg.comparison import iceberg_status
from bayou.kernel.iceberg.manifests.entries import ManifestFile
from bayou.kernel.iceberg.manifests.manifest_reader import read_manifest_list
from bayou.kernel.iceberg.table_metadata import current_snapshot
from bayou.protocol import variant

ICEBERG = {
    "delta.enableIcebergCompatV2": "true",
    "delta.universalFormat.enabledFormats": "iceberg",
}
ICEBERG_V3 = {
    "delta.enableIcebergCompatV3": "true",
    "delta.universalFormat.enabledFormats": "iceberg",
    "delta.enableDeletionVectors": "true",
}


def metadata_file(path: Path) -> Path:
    """Return the newest metadata file, as readers by path find it."""
    number = (path / "metadata" / "version-hint.text").read_text()
    return path / "metadata" / f"v{number}.metadata.json"


def metadata(path: Path) -> dict[str, Any]:
    """Return the newest table metadata."""
    contents: dict[str, Any] = json.loads(metadata_file(path).read_text())
    return contents


def manifests(path: Path) -> list[ManifestFile]:
    """Return the manifests of the current snapshot."""
    snapshot = current_snapshot(metadata(path))
    assert snapshot is not None
    return read_manifest_list(ArrowEngine(), str(path), snapshot["manifest-list"])


def iceberg_table(path: Path) -> StaticTable:
    """Open a table with pyiceberg, by path."""
    return StaticTable.from_metadata(str(path))


def iceberg_rows(path: Path, **scan: Any) -> list[dict[str, Any]]:
    """Return the rows that pyiceberg reads, sorted."""
    return sorted_rows(iceberg_table(path).scan(**scan).to_arrow())


def delta_rows(path: Path, **snapshot: Any) -> list[dict[str, Any]]:
    """Return the rows that Bayou reads, sorted."""
    return sorted_rows(bayou.table(path).snapshot(**snapshot).to_arrow())


def assert_equal_formats(path: Path) -> None:
    """Assert that both formats have the latest version, with equal files and equal rows."""
    status = iceberg_status(ArrowEngine(), str(path))
    assert status is not None
    assert status.problems == ()
    assert status.lag == 0
    assert iceberg_rows(path) == delta_rows(path)


def write(path: Path, columns: Mapping[str, Any], **options: Any) -> int:
    """Append rows."""
    return bayou.write(path, pa.table(dict(columns)), **options)


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows in an order that only depends on their values."""
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=repr)


def comparable_rows(table: pa.Table) -> list[str]:
    """Return rows as sorted strings that are equal if the values are, whatever read them.

    Readers return integers of fewer bits as `int`, and some return maps as pairs of arrays.
    """
    return sorted(repr([(name, row[name]) for name in sorted(row)]) for row in table.to_pylist())


def equal_rows(first: pa.Table, second: pa.Table) -> bool:
    """Return whether two tables have the same columns and rows, in any order.

    Columns of the same types are compared by Arrow. If that finds a difference, the strings of
    `comparable_rows` decide, because readers differ in the types that they return.
    """
    if sorted(first.column_names) != sorted(second.column_names):
        return False
    second_in_order = second.select(first.column_names)
    if first.schema.types == second_in_order.schema.types:
        keys = [(f.name, "ascending") for f in first.schema if not pa.types.is_nested(f.type)]
        if keys and first.sort_by(keys).equals(second_in_order.sort_by(keys)):
            return True
    return comparable_rows(first) == comparable_rows(second)


def rows_with_variants(table: pa.Table) -> list[str]:
    """Return rows as sorted strings; variants, and the columns that have them, are JSON values."""
    return sorted(repr(sorted(_decoded(row).items())) for row in table.to_pylist())


def rows_from_json(table: pa.Table, columns: Collection[str]) -> list[str]:
    """Return rows like `rows_with_variants` of a table with these columns as JSON strings."""
    rows = [
        {k: json.loads(v) if k in columns and v is not None else v for k, v in row.items()}
        for row in table.to_pylist()
    ]
    return sorted(repr(sorted(_decoded(row).items())) for row in rows)


def _decoded(value: Any) -> Any:
    match value:
        case {"metadata": bytes(metadata), "value": bytes(encoded)}:
            return _decoded(json.loads(variant.to_json(metadata, encoded)))
        case dict():
            return {key: _decoded(item) for key, item in sorted(value.items())}
        case [*items] if items and all(isinstance(item, tuple) for item in items):  # a map
            return {key: _decoded(item) for key, item in sorted(items)}
        case [*items]:
            return [_decoded(item) for item in items]
        case _:
            return value


def columns_for_pyiceberg(table: pa.Table) -> list[str]:
    """Return the columns that pyiceberg 0.12 reads without a loss.

    It reads NULL arrays and maps of structs as empty, and the fields of structs in maps as NULL.
    """
    return [field.name for field in table.schema if not _has_repeated_struct(field.type)]


def _has_repeated_struct(data_type: pa.DataType, *, repeated: bool = False) -> bool:
    if pa.types.is_struct(data_type):
        fields = [data_type.field(i).type for i in range(data_type.num_fields)]
        return repeated or any(_has_repeated_struct(each) for each in fields)
    if pa.types.is_map(data_type):
        inner = (data_type.key_type, data_type.item_type)
        return any(_has_repeated_struct(each, repeated=True) for each in inner)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return _has_repeated_struct(data_type.value_type, repeated=True)
    return False
