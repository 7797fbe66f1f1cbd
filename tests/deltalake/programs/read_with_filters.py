# From the documentation of deltalake: api/delta_table/#deltalake.DeltaTable.to_pandas
import sys

import pandas as pd
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

df = pd.DataFrame({"id1": ["id016", "id016", "id020"], "v1": [1, 5, 9], "v2": [0.1, 0.2, 0.3]})
write_deltalake(PATH, df)
dt = DeltaTable(PATH)

out = dt.to_pandas(filters=[("id1", "==", "id016")], columns=["id1", "v1"])
assert list(out.columns) == ["id1", "v1"]
assert sorted(out["v1"]) == [1, 5]

# disjunctive normal form: (id1 = id016 and v1 > 1) or (v1 >= 9)
dnf = [[("id1", "=", "id016"), ("v1", ">", 1)], [("v1", ">=", 9)]]
assert sorted(dt.to_pandas(filters=dnf)["v1"]) == [5, 9]

expr = (ds.field("v2") < 0.25) & ds.field("id1").isin(["id016"])
assert sorted(dt.to_pyarrow_table(filters=expr)["v1"].to_pylist()) == [1, 5]

typed = dt.to_pandas(types_mapper=pd.ArrowDtype)
assert str(typed["v1"].dtype) == "int64[pyarrow]"
