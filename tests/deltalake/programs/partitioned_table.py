# From the documentation of deltalake: usage/working-with-partitions/
import os
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

df = pd.DataFrame({"num": [1, 2, 3], "letter": ["a", "b", "c"], "country": ["US", "US", "CA"]})
write_deltalake(PATH, df, partition_by=["country"])
assert {"country=US", "country=CA", "_delta_log"} <= set(os.listdir(PATH))

dt = DeltaTable(PATH)
pdf = dt.to_pandas(partitions=[("country", "=", "US")])
assert sorted(pdf["num"]) == [1, 2]
assert list(pdf.columns) == ["num", "letter", "country"]
assert dt.metadata().partition_columns == ["country"]

new_data = pd.DataFrame(
    {"num": [10, 20, 30], "letter": ["x", "y", "z"], "country": ["CA", "DE", "DE"]}
)
write_deltalake(PATH, new_data, mode="append")

dt = DeltaTable(PATH)
assert dt.to_pandas().groupby("country").size().to_dict() == {"CA": 2, "DE": 2, "US": 2}
parts = sorted(p["country"] for p in dt.partitions())
assert parts == ["CA", "DE", "US"]
assert dt.partitions(partition_filters=[("country", "=", "DE")]) == [{"country": "DE"}]
