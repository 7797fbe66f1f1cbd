# From the documentation of deltalake: usage/examining-table/#current-add-actions
import sys

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(PATH, pd.DataFrame({"value": [0, 1, 2]}))
write_deltalake(PATH, pd.DataFrame({"value": [7.0, None]}).astype("Int64"), mode="append")

dt = DeltaTable(PATH)
df = pa.table(dt.get_add_actions(flatten=True)).to_pandas()
df = df.sort_values("min.value", ignore_index=True)
assert {"path", "size_bytes", "modification_time", "num_records"} <= set(df.columns)
assert df["num_records"].tolist() == [3, 2]
assert df["min.value"].tolist() == [0, 7]
assert df["max.value"].tolist() == [2, 7]
assert df["null_count.value"].tolist() == [0, 1]
assert (df["size_bytes"] > 0).all()

nested = pa.table(dt.get_add_actions())
assert {"null_count", "min", "max"} <= set(nested.column_names)
assert sorted(m["value"] for m in nested["max"].to_pylist()) == [2, 7]

old = pa.table(DeltaTable(PATH, version=0).get_add_actions(flatten=True))
assert old.num_rows == 1
assert dt.count() == 5
