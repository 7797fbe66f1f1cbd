# From the documentation of deltalake: api/delta_table/#deltalake.DeltaTable.create_checkpoint
import json
import os
import sys

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake

PATH = sys.argv[1]
LOG = os.path.join(PATH, "_delta_log")

write_deltalake(PATH, pa.table({"id": [0]}))
for i in range(1, 4):
    write_deltalake(
        PATH,
        pa.table({"id": [i]}),
        mode="append",
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=False),
    )
assert "_last_checkpoint" not in os.listdir(LOG)

dt = DeltaTable(PATH)
dt.create_checkpoint()
assert "00000000000000000003.checkpoint.parquet" in os.listdir(LOG)
with open(os.path.join(LOG, "_last_checkpoint")) as f:
    assert json.load(f)["version"] == 3

dt.cleanup_metadata()  # nothing is older than 30 days
assert "00000000000000000000.json" in os.listdir(LOG)
os.remove(os.path.join(LOG, "00000000000000000001.json"))
dt = DeltaTable(PATH)  # now loads from the checkpoint
assert dt.version() == 3
assert sorted(dt.to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 3]
