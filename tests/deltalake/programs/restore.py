# From the documentation of deltalake: api/delta_table/#deltalake.DeltaTable.restore
import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

PATH = sys.argv[1]

write_deltalake(PATH, pa.table({"id": [1, 2]}))
write_deltalake(PATH, pa.table({"id": [3]}), mode="append")
write_deltalake(PATH, pa.table({"id": [99]}), mode="overwrite")

dt = DeltaTable(PATH)
metrics = dt.restore(1, commit_properties=CommitProperties(custom_metadata={"reason": "bad load"}))
assert metrics["numRestoredFile"] == 2
assert metrics["numRemovedFile"] == 1

dt = DeltaTable(PATH)
assert dt.version() == 3
assert sorted(dt.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]
last = dt.history(1)[0]
assert last["operation"] == "RESTORE"
assert last["reason"] == "bad load"

try:
    dt.restore(42)
except DeltaError:
    pass
else:
    raise AssertionError("version 42 does not exist")
