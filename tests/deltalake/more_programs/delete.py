import sys

import pandas as pd
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

path = sys.argv[1] + "/del"
df = pd.DataFrame(
    {
        "num": [1, 2, 3, 4, None],
        "animal": ["cat", "dog", "cat", "snake", None],
        "ok": [True, False] * 2 + [True],
    }
)
write_deltalake(path, df, partition_by=["ok"])
dt = DeltaTable(path)

m = dt.delete(
    "num > 2 and animal = 'cat'",
    commit_properties=CommitProperties(custom_metadata={"userName": "John Doe"}),
)
assert m["num_deleted_rows"] == 1
assert dt.history(1)[0]["operation"] == "DELETE" and dt.history(1)[0]["userName"] == "John Doe"
assert dt.to_pandas()["animal"].value_counts(dropna=False).to_dict() == {
    "cat": 1,
    "dog": 1,
    "snake": 1,
    None: 1,
}

dt.delete("ok = false")  # a whole partition
assert dt.to_pandas()["ok"].all() and len(dt.to_pandas()) == 2
before = dt.version()
assert dt.delete("num = 12345")["num_deleted_rows"] == 0
dt.delete("num <> 1")  # null is not <> 1
assert len(dt.to_pandas()) == 2
dt.delete("animal is null or animal in ('x', 'y') or animal like 'sn%'")
assert dt.to_pandas()["animal"].tolist() == ["cat"]
try:
    dt.delete("no_such = 1")
    raise AssertionError("not reached")
except DeltaError:
    pass
dt.delete()
assert dt.to_pandas().empty and dt.file_uris() == []
assert list(dt.to_pandas().columns) == ["num", "animal", "ok"]
dt.load_as_version(0)
assert len(dt.to_pandas()) == 5
