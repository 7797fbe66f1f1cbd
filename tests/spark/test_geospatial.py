"""Geometries and geographies pass between Spark and tables, at every level."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.functions import lit

import bayou
from bayou.protocol.schema import GeographyType, GeometryType
from bayou.spark.geospatial import arrow_type, to_spark_values

POINT = struct.pack("<BIdd", 1, 1, 1.5, -2.0)
OTHER = struct.pack("<BIdd", 1, 1, 3.0, 4.0)
COLUMNS = {
    "id": "bigint",
    "g": "geometry(3857)",
    "h": "geography(4326)",
    "l": "array<geometry(4326)>",
    "m": "map<string, geography(4326)>",
    "s": "struct<x: geometry(0)>",
}
ROWS = pa.table(
    {
        "id": [1, 2],
        "g": pa.array([POINT, None], pa.binary()),
        "h": pa.array([POINT, OTHER], pa.binary()),
        "l": pa.array([[POINT, None], None], pa.list_(pa.binary())),
        "m": pa.array([[("a", POINT)], None], pa.map_(pa.string(), pa.binary())),
        "s": pa.array([{"x": POINT}, None], pa.struct([("x", pa.binary())])),
    }
)
WKB = [
    "id",
    "hex(st_asbinary(g)) g",
    "hex(st_asbinary(h)) h",
    "transform(l, e -> hex(st_asbinary(e))) l",
    "transform_values(m, (k, v) -> hex(st_asbinary(v))) m",
    "hex(st_asbinary(s.x)) s",
]


@pytest.mark.parametrize("data_type", [GeometryType("EPSG:3857"), GeographyType()])
def test_nulls_and_slices_become_sparks_structs(data_type):
    target = pa.list_(pa.field("element", arrow_type(data_type)))
    array = pa.array([[POINT], [None, OTHER], None, []], pa.list_(pa.binary())).slice(1)
    srid = 3857 if isinstance(data_type, GeometryType) else 4326
    assert to_spark_values(array, target).to_pylist() == [
        [None, {"srid": srid, "wkb": OTHER}], None, [],
    ]  # fmt: skip


@pytest.mark.spark
def test_spark_reads_and_writes_geospatial_columns(spark, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    bayou.create(path, COLUMNS)
    bayou.write(path, ROWS)
    frame = spark.read.format("delta").load(path)
    assert frame.schema["g"].dataType.simpleString() == "geometry(3857)"
    point, other = POINT.hex().upper(), OTHER.hex().upper()
    expected = [
        (1, point, point, [point, None], {"a": point}, point),
        (2, None, other, None, None, None),
    ]
    assert [tuple(row) for row in frame.orderBy("id").selectExpr(*WKB).collect()] == expected
    frame.where("id = 1").withColumn("id", lit(3).cast("long")).write.format("delta").mode(
        "append"
    ).save(path)
    found = bayou.table(path).to_arrow().sort_by("id").to_pylist()
    assert found[2] == {**found[0], "id": 3}
    copy = str(tmp_path / "copy")
    frame.write.format("delta").save(copy)
    source, target = (bayou.table(name).snapshot().kernel.schema for name in (path, copy))
    assert [f.data_type for f in target] == [f.data_type for f in source]
    assert "geospatial" in bayou.table(copy).snapshot().protocol.writer_features
