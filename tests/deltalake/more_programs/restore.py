import sys
import time
from datetime import datetime, timezone

import pandas as pd
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

path = sys.argv[1] + "/restore"
write_deltalake(path, pd.DataFrame({"id": [1, 2]}))
write_deltalake(path, pd.DataFrame({"id": [3]}), mode="append")
time.sleep(0.05)
good = datetime.now(timezone.utc)
time.sleep(0.05)
dt = DeltaTable(path)
dt.delete()
assert dt.to_pandas().empty

m = dt.restore(1, commit_properties=CommitProperties(custom_metadata={"userName": "John Doe"}))
assert m["numRestoredFile"] > 0 and m["numRemovedFile"] == 0
assert dt.version() == 3 and sorted(dt.to_pandas()["id"]) == [1, 2, 3]
assert dt.history(1)[0]["operation"] == "RESTORE"
assert dt.history(1)[0]["userName"] == "John Doe"
dt.restore(0)
assert dt.to_pandas()["id"].tolist() == [1, 2]
dt.restore(good)
assert sorted(dt.to_pandas()["id"]) == [1, 2, 3]
try:
    dt.restore(99)
    raise AssertionError("not reached")
except DeltaError:
    pass
assert DeltaTable(path).version() == 5
assert DeltaTable(path, version=2).to_pandas().empty
