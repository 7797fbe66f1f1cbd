"""Geometries and geographies get Parquet's logical types, at every level."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines.arrow.parquet_files.geospatial import with_logical_types
from bayou.kernel.arrow.types import EXTENSION_NAME_KEY, GEO_ARROW_WKB

POINT = struct.pack("<BIdd", 1, 1, 1.5, -2.0)
COLUMNS = {
    "id": "bigint",
    "g": "geometry",
    "h": "geography(4326)",
    "l": "array<geometry(3857)>",
    "m": "map<string, geography>",
    "s": "struct<x: geometry(0)>",
}
ROWS = pa.table(
    {
        "id": [1, 2],
        "g": pa.array([POINT, None], pa.binary()),
        "h": pa.array([POINT, POINT], pa.binary()),
        "l": pa.array([[POINT, None], None], pa.list_(pa.binary())),
        "m": pa.array([[("a", POINT)], None], pa.map_(pa.string(), pa.binary())),
        "s": pa.array([{"x": POINT}, None], pa.struct([("x", pa.binary())])),
    }
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def written(path: str) -> pq.ParquetFile:
    (file,) = Path(path).glob("*.parquet")
    return pq.ParquetFile(file)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_columns_have_logical_types(path: str, mode: str) -> None:
    bayou.create(path, COLUMNS, configuration={"delta.columnMapping.mode": mode})
    bayou.write(path, ROWS)
    footer = written(path)
    found = [str(footer.schema.column(i).logical_type) for i in range(len(footer.schema))]
    assert [name.replace("OGC:CRS84", "") for name in found if name.startswith("Geo")] == [
        "Geometry(crs=)",
        "Geography(crs=, algorithm=spherical)",
        "Geometry(crs=EPSG:3857)",
        "Geography(crs=, algorithm=spherical)",
        "Geometry(crs=SRID:0)",
    ]
    box = footer.metadata.row_group(0).column(1).geo_statistics
    assert (box.xmin, box.xmax, box.ymin, box.ymax) == (1.5, 1.5, -2.0, -2.0)
    assert bayou.table(path).to_arrow().to_pylist() == ROWS.to_pylist()


def test_statistics_count_nulls_and_have_no_bounds(path: str) -> None:
    bayou.create(path, COLUMNS)
    bayou.write(path, ROWS)
    text = (Path(path) / "_delta_log" / f"{1:020d}.json").read_text()
    (add,) = [a["add"] for a in map(json.loads, text.splitlines()) if "add" in a]
    stats = json.loads(add["stats"])
    assert stats["nullCount"] == {"id": 0, "g": 1, "h": 0, "l": 1, "m": 1, "s": {"x": 1}}
    assert (stats["minValues"], stats["maxValues"]) == ({"id": 1}, {"id": 2})


def test_files_with_many_rows_are_written_by_several_threads(path: str) -> None:
    bayou.create(path, {"id": "bigint", "g": "geometry"})
    points = [struct.pack("<BIdd", 1, 1, float(i), 0.0) for i in range(120_000)]
    bayou.write(path, pa.table({"id": list(range(120_000)), "g": points}))
    column = written(path).metadata.row_group(0).column(1)
    assert column.geo_statistics.xmax >= 100_000.0
    assert bayou.table(path).to_arrow().num_rows == 120_000


class Wkb(pa.ExtensionType):
    """GeoArrow's type, as its package registers it."""

    def __init__(self, metadata: bytes = b"{}") -> None:
        self._metadata = metadata
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._metadata

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls(serialized)


def test_a_registered_geoarrow_type_makes_and_reads_a_column(path: str) -> None:
    pa.register_extension_type(Wkb())
    try:
        kind = Wkb(b'{"crs":"EPSG:3857"}')
        column = pa.ExtensionArray.from_storage(kind, pa.array([POINT, None], pa.binary()))
        bayou.write(path, pa.table({"id": [1, 2], "g": column}))
        bayou.write(path, pa.table({"id": [3], "g": [POINT]}))
        table = bayou.table(path)
        assert str(table.snapshot().kernel.schema.get("g").data_type) == "geometry(EPSG:3857)"
        table.delete("id = 1")
        table.optimize.compact()
        found = table.to_arrow().sort_by("id")
        assert found.column("g").to_pylist() == [None, POINT]
    finally:
        pa.unregister_extension_type("geoarrow.wkb")


def test_other_columns_are_not_checked_for_nulls() -> None:
    geo = pa.field("g", pa.binary(), metadata={EXTENSION_NAME_KEY: GEO_ARROW_WKB})
    schema = pa.schema([geo, pa.field("at", pa.int64(), nullable=False)])
    group = pa.table([pa.array([b"x"]), pa.array([None], pa.int64())], schema=schema)
    written = with_logical_types(group)
    assert written.schema.field("g").type != pa.binary()
    assert written.column("at").null_count == 1  # the Parquet writer reports it
