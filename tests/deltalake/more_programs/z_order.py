import sys
from datetime import date, timedelta

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/zorder"
for k in range(3):
    write_deltalake(
        path,
        pa.table(
            {
                "day": [date(2024, 1, 1) + timedelta(days=(i * 7 + k) % 30) for i in range(30)],
                "n": [(i * 11 + k) % 30 for i in range(30)],
                "s": [f"v{i}" for i in range(30)],
            }
        ),
        mode="append",
    )
dt = DeltaTable(path)
before = sorted(map(str, dt.to_pyarrow_table().to_pylist()))
old_version = dt.version()

m = dt.optimize.z_order(["day", "n"])
assert m["numFilesRemoved"] > m["numFilesAdded"]
assert dt.version() == old_version + 1
assert dt.history(1)[0]["operation"] == "OPTIMIZE"
assert sorted(map(str, dt.to_pyarrow_table().to_pylist())) == before
assert dt.count() == 90

for cols in ([], ["no_such_column"]):
    try:
        dt.optimize.z_order(cols)
        raise AssertionError("not reached")
    except Exception as e:
        assert not isinstance(e, AssertionError)
assert dt.version() == old_version + 1
dt.load_as_version(old_version)
assert sorted(map(str, dt.to_pyarrow_table().to_pylist())) == before
