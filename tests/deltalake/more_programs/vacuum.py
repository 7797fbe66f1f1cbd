import os
import sys

import pandas as pd
from deltalake import CommitProperties, DeltaTable, write_deltalake

path = sys.argv[1] + "/vac"
df = pd.DataFrame({"id": [1, 2, 3]})
write_deltalake(path, df, mode="overwrite")
old = {os.path.basename(f) for f in DeltaTable(path).file_uris()}
write_deltalake(path, df, mode="overwrite")
dt = DeltaTable(path)
new = {os.path.basename(f) for f in dt.file_uris()}
assert not old & new

assert dt.vacuum() == [], "nothing is older than a week"
for args, exc in (((-1,), ValueError), ((1,), Exception)):
    try:
        dt.vacuum(*args)
        raise AssertionError("not reached")
    except exc as e:
        assert not isinstance(e, AssertionError)

assert set(dt.vacuum(retention_hours=0, enforce_retention_duration=False)) == old
assert dt.version() == 1, "a dry run does not commit"
gone = dt.vacuum(
    retention_hours=0,
    enforce_retention_duration=False,
    dry_run=False,
    commit_properties=CommitProperties(custom_metadata={"userName": "John Doe"}),
)
assert set(gone) == old
assert {f for f in os.listdir(path) if f.endswith(".parquet")} == new
ops = [h["operation"] for h in DeltaTable(path).history(2)]
assert ops == ["VACUUM END", "VACUUM START"]
assert DeltaTable(path).history(1)[0]["userName"] == "John Doe"
assert sorted(DeltaTable(path).to_pandas()["id"]) == [1, 2, 3]
