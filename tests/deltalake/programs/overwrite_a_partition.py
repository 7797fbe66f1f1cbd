# From the documentation of deltalake: usage/working-with-partitions/#overwriting-a-partition
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

df = pd.DataFrame(
    {"num": [1, 2, 20, 30], "letter": ["a", "b", "y", "z"], "country": ["US", "CA", "DE", "DE"]}
)
write_deltalake(PATH, df, partition_by=["country"])

dt = DeltaTable(PATH)
kept = set(dt.file_uris([("country", "!=", "DE")]))
df_overwrite = pd.DataFrame({"num": [900, 1000], "letter": ["m", "n"], "country": ["DE", "DE"]})
write_deltalake(dt, df_overwrite, predicate="country = 'DE'", mode="overwrite")

dt = DeltaTable(PATH)
assert sorted(dt.to_pandas()["num"]) == [1, 2, 900, 1000]
assert set(dt.file_uris([("country", "!=", "DE")])) == kept

dt.delete("country = 'US'")
assert sorted(DeltaTable(PATH).to_pandas()["country"].unique()) == ["CA", "DE"]
