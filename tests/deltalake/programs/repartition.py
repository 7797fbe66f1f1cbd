# From the documentation of deltalake: usage/working-with-partitions/#replacing-partition-columns
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

PATH = sys.argv[1]

df = pd.DataFrame({"num": [1, 2, 3], "letter": ["a", "b", "c"], "country": ["US", "US", "CA"]})
write_deltalake(PATH, df, partition_by=["country"])

df_repartitioned = pd.DataFrame(
    {"num": [1, 2, 3], "letter": ["a", "b", "c"], "continent": ["NA", "NA", "EU"]}
)
try:
    write_deltalake(PATH, df_repartitioned, mode="append", partition_by=["continent"])
except (DeltaError, ValueError):
    pass
else:
    raise AssertionError("an append can not change the partition columns")

dt = DeltaTable(PATH)
write_deltalake(
    dt, df_repartitioned, mode="overwrite", schema_mode="overwrite", partition_by=["continent"]
)
dt = DeltaTable(PATH)
assert dt.metadata().partition_columns == ["continent"]
assert len(dt.file_uris()) == 2
assert dt.to_pandas(partitions=[("continent", "=", "EU")])["num"].tolist() == [3]
