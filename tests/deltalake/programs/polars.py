# From the documentation of deltalake: integrations/delta-lake-polars/
import sys

import polars as pl
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

pl.DataFrame({"x": [1, 2, 3]}).write_delta(PATH)
pl.DataFrame({"x": [8, 9, 10]}).write_delta(PATH, mode="append")
pl.DataFrame({"x": [55, 66, 77]}).write_delta(PATH, mode="overwrite")

assert sorted(pl.read_delta(PATH)["x"].to_list()) == [55, 66, 77]
assert sorted(pl.read_delta(PATH, version=0)["x"].to_list()) == [1, 2, 3]
assert sorted(pl.read_delta(PATH, version=1)["x"].to_list()) == [1, 2, 3, 8, 9, 10]

lazy = pl.scan_delta(PATH).filter(pl.col("x") > 60).select(pl.col("x").sum())
assert lazy.collect().item() == 143

write_deltalake(PATH, pl.DataFrame({"x": [88]}), mode="append")
dt = DeltaTable(PATH)
assert dt.version() == 3
df = pl.from_arrow(dt.to_pyarrow_table())
assert sorted(df["x"].to_list()) == [55, 66, 77, 88]
