# From the documentation of deltalake: usage/create-delta-lake-table/
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

assert not DeltaTable.is_deltatable(PATH)
df = pd.DataFrame({"num": [1, 2, 3], "letter": ["a", "b", "c"]})
write_deltalake(PATH, df)

assert DeltaTable.is_deltatable(PATH)
dt = DeltaTable(PATH)
assert dt.version() == 0
out = dt.to_pandas().sort_values("num", ignore_index=True)
assert list(out.columns) == ["num", "letter"]
assert out["num"].tolist() == [1, 2, 3]
assert out["letter"].tolist() == ["a", "b", "c"]
assert str(out["num"].dtype) == "int64"
