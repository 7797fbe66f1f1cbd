# From the documentation of deltalake: usage/loading-table/#time-travel
import sys
import time
from datetime import datetime, timedelta, timezone

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

PATH = sys.argv[1]

write_deltalake(PATH, pa.table({"id": [1]}))
time.sleep(0.2)
write_deltalake(PATH, pa.table({"id": [2]}), mode="append")

dt = DeltaTable(PATH)
newest, oldest = dt.history()
first = datetime.fromtimestamp(oldest["timestamp"] / 1000, tz=timezone.utc)
between = first + timedelta(milliseconds=100)

dt.load_as_version(between)
assert dt.version() == 0
dt.load_as_version(datetime.now(timezone.utc).isoformat())
assert dt.version() == 1
dt.load_as_version(0)
assert dt.to_pyarrow_table()["id"].to_pylist() == [1]

try:
    DeltaTable(PATH, version=7)
except DeltaError as err:
    assert str(err)
else:
    raise AssertionError("version 7 does not exist")
try:
    dt.load_as_version(1.5)
except TypeError:
    pass
else:
    raise AssertionError("only int, str or datetime are accepted")
