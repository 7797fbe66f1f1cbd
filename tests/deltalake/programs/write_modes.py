# From the documentation of deltalake: usage/writing/
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

PATH = sys.argv[1]

df = pd.DataFrame({"x": [1, 2, 3]})
write_deltalake(PATH, df)

try:
    write_deltalake(PATH, df)
except DeltaError:
    pass
else:
    raise AssertionError("the default mode errors when the table exists")

write_deltalake(PATH, df, mode="ignore")
assert DeltaTable(PATH).version() == 0

write_deltalake(PATH, df, mode="append")
dt = DeltaTable(PATH)
assert dt.version() == 1
assert sorted(dt.to_pandas()["x"]) == [1, 1, 2, 2, 3, 3]

write_deltalake(dt, pd.DataFrame({"x": [9]}), mode="overwrite")
assert dt.version() == 2
assert dt.to_pandas()["x"].tolist() == [9]
assert len(dt.file_uris()) == 1
