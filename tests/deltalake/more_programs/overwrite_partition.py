import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/partitioned-table"
df = pd.DataFrame({"num": [1, 2, 3], "letter": ["a", "b", "c"], "country": ["US", "US", "CA"]})
write_deltalake(path, df, partition_by=["country"])
write_deltalake(
    path,
    pd.DataFrame({"num": [10, 20, 30], "letter": list("xyz"), "country": ["CA", "DE", "DE"]}),
    mode="append",
)
dt = DeltaTable(path)
assert dt.metadata().partition_columns == ["country"]
assert sorted({p["country"] for p in dt.partitions()}) == ["CA", "DE", "US"]

df_overwrite = pd.DataFrame({"num": [900, 1000], "letter": ["m", "n"], "country": ["DE", "DE"]})
write_deltalake(dt, df_overwrite, predicate="country = 'DE'", mode="overwrite")
out = DeltaTable(path).to_pandas().sort_values("num", ignore_index=True)
assert out["num"].tolist() == [1, 2, 3, 10, 900, 1000]
assert out["country"].tolist() == ["US", "US", "CA", "CA", "DE", "DE"]

us = dt.to_pandas(partitions=[("country", "=", "US")])
assert sorted(us["num"]) == [1, 2]
dt.delete("country = 'US'")
assert sorted(set(dt.to_pandas()["country"])) == ["CA", "DE"]
dt.optimize.compact(partition_filters=[("country", "=", "CA")])
assert dt.to_pandas()["num"].sum() == 3 + 10 + 900 + 1000
