import sys
import time
from datetime import datetime, timedelta, timezone

import pandas as pd
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/tt"
stamps = []
for i in range(3):
    write_deltalake(path, pd.DataFrame({"v": [i]}), mode="append")
    time.sleep(0.05)
    stamps.append(datetime.now(timezone.utc))
    time.sleep(0.05)
dt = DeltaTable(path)
assert dt.version() == 2
dt.load_as_version(0)
assert dt.version() == 0 and dt.to_pandas()["v"].tolist() == [0]
dt.update_incremental()
assert dt.version() == 2
dt.load_as_version(stamps[1])
assert dt.version() == 1 and sorted(dt.to_pandas()["v"]) == [0, 1]
dt.load_as_version(stamps[0].isoformat())
assert dt.version() == 0
dt.load_as_version((stamps[2] + timedelta(days=1)).isoformat())
assert dt.version() == 2
assert sorted(DeltaTable(path, version=1).to_pandas()["v"]) == [0, 1]
for bad in (
    lambda: DeltaTable(path, version=17),
    lambda: dt.load_as_version("yesterday"),
    lambda: dt.load_as_version(1.5),
):
    try:
        bad()
        raise AssertionError("not reached")
    except Exception as e:
        assert not isinstance(e, AssertionError)
