import sys

import pandas as pd
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

path = sys.argv[1] + "/simple_table"
write_deltalake(path, pd.DataFrame({"id": [1, 2, 3], "price": [0.5, 1.5, None]}))
dt = DeltaTable(path)
dt.alter.add_constraint(
    {"id_gt_0": "id > 0"}, commit_properties=CommitProperties(custom_metadata={"userName": "me"})
)
assert dt.history(1)[0]["operation"] == "ADD CONSTRAINT"
assert dt.history(1)[0]["userName"] == "me"
assert dt.metadata().configuration == {"delta.constraints.id_gt_0": "id > 0"}
assert dt.protocol().min_writer_version == 3


def refused(fn):
    before = DeltaTable(path).version()
    try:
        fn()
    except DeltaError:
        assert DeltaTable(path).version() == before
        return
    raise AssertionError("expected DeltaError")


bad = pd.DataFrame({"id": [5, -1], "price": [1.0, 2.0]})
refused(lambda: write_deltalake(dt, bad, mode="append"))
refused(lambda: dt.update(updates={"id": "id - 2"}))
refused(lambda: dt.alter.add_constraint({"id_small": "id < 3"}))
refused(lambda: dt.alter.drop_constraint(name="invalid_constraint_name"))
dt.alter.drop_constraint(name="invalid_constraint_name", raise_if_not_exists=False)
dt.alter.drop_constraint(name="id_gt_0")
assert dt.metadata().configuration == {}
write_deltalake(dt, bad, mode="append")
assert sorted(dt.to_pandas()["id"]) == [-1, 1, 2, 3, 5]
