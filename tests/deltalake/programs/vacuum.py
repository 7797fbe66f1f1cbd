# From the documentation of deltalake: usage/managing-tables/#vacuuming-tables
import os
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

PATH = sys.argv[1]

write_deltalake(PATH, pd.DataFrame({"x": [1, 2, 3]}))
write_deltalake(PATH, pd.DataFrame({"x": [4, 5]}), mode="overwrite")
dt = DeltaTable(PATH)
files = [f for f in os.listdir(PATH) if f.endswith(".parquet")]
assert len(files) == 2

assert dt.vacuum() == []  # within the retention of one week
try:
    dt.vacuum(retention_hours=0)
except DeltaError:
    pass
else:
    raise AssertionError("a retention below the table's has to be refused")

listed = dt.vacuum(retention_hours=0, enforce_retention_duration=False)
assert len(listed) == 1
assert len([f for f in os.listdir(PATH) if f.endswith(".parquet")]) == 2  # dry run
deleted = dt.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
assert deleted == listed
left = [f for f in os.listdir(PATH) if f.endswith(".parquet")]
assert left == [os.path.basename(dt.file_uris()[0])]
assert sorted(DeltaTable(PATH).to_pandas()["x"]) == [4, 5]
ops = [h["operation"] for h in DeltaTable(PATH).history()]
assert "VACUUM END" in ops and "VACUUM START" in ops
