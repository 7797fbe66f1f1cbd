import sys

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/evolve"
write_deltalake(path, pa.table({"a": [1, 2], "b": ["x", "y"]}))
write_deltalake(
    path,
    pa.table({"a": [3], "c": pa.array([0.5], pa.float64())}),
    mode="append",
    schema_mode="merge",
)
write_deltalake(path, pa.table({"d": pa.array([True])}), mode="append", schema_mode="merge")

dt = DeltaTable(path)
assert [f.name for f in dt.schema().fields] == ["a", "b", "c", "d"]
assert [f.type.type for f in dt.schema().fields] == ["long", "string", "double", "boolean"]
assert all(f.nullable for f in dt.schema().fields)
rows = sorted(dt.to_pyarrow_table().to_pylist(), key=lambda r: (r["a"] is None, r["a"] or 0))
assert rows == [
    {"a": 1, "b": "x", "c": None, "d": None},
    {"a": 2, "b": "y", "c": None, "d": None},
    {"a": 3, "b": None, "c": 0.5, "d": None},
    {"a": None, "b": None, "c": None, "d": True},
]
# older versions keep their own schema
assert DeltaTable(path, version=0).to_pyarrow_table().column_names == ["a", "b"]
# overwrite + merge keeps the columns that the new data lacks
write_deltalake(path, pd.DataFrame({"a": [100, 200]}), mode="overwrite", schema_mode="merge")
df = DeltaTable(path).to_pandas()
assert list(df.columns) == ["a", "b", "c", "d"] and sorted(df["a"]) == [100, 200]
assert df["b"].isna().all()
