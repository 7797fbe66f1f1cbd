"""Geometries and geographies as columns of tables: features, schemas, rows."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import FeatureInUseError, SchemaError, UnsupportedFeatureError

POINT = struct.pack("<BIdd", 1, 1, 1.5, -2.0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def features(path: str) -> set[str]:
    return set(bayou.table(path).snapshot().protocol.reader_features or ())


def test_the_types_add_the_feature_unless_the_preview_is_there(path: str) -> None:
    bayou.create(path, {"id": "bigint", "s": "struct<g: geometry>"})
    assert features(path) == {"geospatial"}
    preview = {"delta.feature.geospatial-dev": "supported"}
    bayou.create(f"{path}-2", {"g": "geography"}, configuration=preview)
    assert features(f"{path}-2") == {"geospatial-dev"}
    bayou.create(f"{path}-3", {"id": "bigint"})
    bayou.table(f"{path}-3").alter.add_column("g", "geometry(3857)")
    assert features(f"{path}-3") == {"geospatial"}


def test_a_table_that_lists_no_feature_for_the_types_is_not_written(path: str) -> None:
    bayou.create(path, {"g": "geometry", "id": "bigint"})
    commit = Path(path) / "_delta_log" / f"{0:020d}.json"
    commit.write_text(commit.read_text().replace('"geospatial"', '"vacuumProtocolCheck"'))
    with pytest.raises(UnsupportedFeatureError, match="geospatial"):
        bayou.write(path, pa.table({"id": [1]}))


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"g": pa.array([POINT, None], pa.binary())}),
        pa.table({"g": pa.array([POINT, None], pa.large_binary())}),
        pa.table({"g": pa.array([POINT, None], pa.binary_view())}),
        pa.table({"g": pa.array([{"srid": 4326, "wkb": POINT}, None])}),
    ],
    ids=["binary", "large_binary", "binary_view", "Spark"],
)
def test_rows_have_wkb_in_any_form(path: str, rows: pa.Table) -> None:
    bayou.create(path, {"g": "geometry(4326)"})
    if "Spark" not in str(rows.schema) and not pa.types.is_struct(rows.schema.field("g").type):
        bayou.write(path, rows)
        assert bayou.table(path).to_arrow().column("g").to_pylist() == [POINT, None]
    else:
        with pytest.raises(SchemaError, match="DELTA_FAILED_TO_MERGE_FIELDS"):
            bayou.write(path, rows)


@pytest.mark.parametrize("data", [["POINT (1 2)"], [1]])
def test_other_types_are_refused(path: str, data: list) -> None:
    bayou.create(path, {"g": "geometry"})
    with pytest.raises(SchemaError, match=r"geometry\(OGC:CRS84\)"):
        bayou.write(path, pa.table({"g": data}))


def test_a_geospatial_column_neither_partitions_nor_clusters(path: str) -> None:
    with pytest.raises(SchemaError, match="DELTA_INVALID_PARTITION_COLUMN_TYPE"):
        bayou.create(path, {"g": "geometry", "id": "bigint"}, partition_by="g")
    with pytest.raises(SchemaError):
        bayou.create(path, {"g": "geography", "id": "bigint"}, cluster_by="g")


def test_a_column_has_one_coordinate_reference_system(path: str) -> None:
    from bayou.protocol.schema import GeometryType, StructField, StructType

    schema = StructType((StructField(name="g", data_type=GeometryType("SRID:ANY")),))
    with pytest.raises(SchemaError, match="DELTA_GEOSPATIAL_SRID_NOT_SUPPORTED"):
        bayou.create(path, schema)


def test_null_geometries_are_found_and_skipped(path: str) -> None:
    bayou.create(path, {"id": "bigint", "g": "geometry"})
    bayou.write(path, pa.table({"id": [1], "g": pa.array([POINT], pa.binary())}))
    bayou.write(path, pa.table({"id": [2], "g": pa.array([None], pa.binary())}))
    table = bayou.table(path)
    for condition, identifiers in (("g IS NULL", [2]), ("g IS NOT NULL", [1])):
        assert table.to_arrow(filter=condition).column("id").to_pylist() == identifiers
        assert table.snapshot().files(filter=condition).num_rows == 1
    table.delete("g IS NOT NULL")
    assert table.to_arrow().column("id").to_pylist() == [2]


def test_the_feature_is_dropped_with_the_last_column(path: str) -> None:
    bayou.create(
        path, {"id": "bigint", "g": "geometry"}, configuration={"delta.columnMapping.mode": "name"}
    )
    alter = bayou.table(path).alter
    with pytest.raises(FeatureInUseError, match="DELTA_CANNOT_DROP_GEOSPATIAL_FEATURE"):
        alter.drop_feature("geospatial")
    alter.drop_columns("g")
    alter.drop_feature("geospatial")
    assert "geospatial" not in features(path)
