import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/special values"
values = ["a=b", "hello world", "hello%20world", "x/y", "ünïcode ☃", "it's", "a:b", "100%", None]
data = pa.table({"p": pa.array(values, pa.string()), "x": list(range(len(values)))})
write_deltalake(path, data, partition_by=["p"])

dt = DeltaTable(path)
assert dt.to_pyarrow_table().sort_by("x") == data
assert dt.to_pandas().sort_values("x")["p"].tolist() == values

found = {p["p"] for p in dt.partitions()}
assert {v for v in values if v is not None} <= found and None in found

for i, v in enumerate(values[:-1]):
    t = dt.to_pyarrow_table(filters=[("p", "=", v)])
    assert t["x"].to_pylist() == [i], v

dt.delete("p = 'hello world'")
dt.delete("p = 'it''s'")
dt.delete("p is null")
assert sorted(dt.to_pyarrow_table()["x"].to_pylist()) == [0, 2, 3, 4, 6, 7]
dt.update(updates={"x": "x + 100"}, predicate="p = 'hello%20world'")
assert sorted(dt.to_pyarrow_table()["x"].to_pylist()) == [0, 3, 4, 6, 7, 102]
write_deltalake(path, pa.table({"p": ["x/y"], "x": [55]}), mode="overwrite", predicate="p = 'x/y'")
assert sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist()) == [0, 4, 6, 7, 55, 102]
