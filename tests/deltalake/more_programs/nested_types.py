import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import ArrayType, MapType, StructType

path = sys.argv[1] + "/nested"
schema = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("attrs", pa.map_(pa.string(), pa.int32())),
        ("addr", pa.struct([("city", pa.string()), ("geo", pa.struct([("lat", pa.float64())]))])),
        ("items", pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int32())]))),
    ]
)
rows = [
    {
        "id": 1,
        "tags": ["a", "b"],
        "attrs": [("k", 1)],
        "addr": {"city": "B", "geo": {"lat": 1.5}},
        "items": [{"sku": "x", "n": 1}, {"sku": "y", "n": None}],
    },
    {"id": 2, "tags": [], "attrs": [], "addr": {"city": None, "geo": None}, "items": []},
    {"id": 3, "tags": None, "attrs": None, "addr": None, "items": None},
]
write_deltalake(path, pa.Table.from_pylist(rows, schema=schema))
dt = DeltaTable(path)
types = {f.name: f.type for f in dt.schema().fields}
assert isinstance(types["tags"], ArrayType) and types["tags"].element_type.type == "string"
assert isinstance(types["attrs"], MapType) and types["attrs"].value_type.type == "integer"
assert isinstance(types["addr"], StructType) and types["addr"].fields[1].name == "geo"
assert isinstance(types["items"].element_type, StructType)
assert sorted(dt.to_pyarrow_table().to_pylist(), key=lambda r: r["id"]) == rows

dt.delete("addr.city = 'B'")
assert sorted(dt.to_pyarrow_table()["id"].to_pylist()) == [2, 3]
write_deltalake(path, pa.Table.from_pylist(rows[:1], schema=schema), mode="append")
dt.update_incremental()
assert dt.to_pyarrow_table().sort_by("id").to_pylist()[0] == rows[0]
