# From the documentation of deltalake: usage/constraints/
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

PATH = sys.argv[1]

write_deltalake(PATH, pd.DataFrame({"id": [1, 2]}))
dt = DeltaTable(PATH)
dt.alter.add_constraint({"id_gt_0": "id > 0"})
assert dt.metadata().configuration["delta.constraints.id_gt_0"] == "id > 0"
assert dt.protocol().min_writer_version >= 3

try:
    write_deltalake(dt, pd.DataFrame({"id": [-1]}), mode="append")
except DeltaError as err:
    assert "-1" in str(err)
else:
    raise AssertionError("-1 violates the constraint")
try:
    dt.alter.add_constraint({"id_gt_1": "id > 1"})  # the table has id = 1
except DeltaError:
    pass
else:
    raise AssertionError("existing rows violate the new constraint")

dt = DeltaTable(PATH)
dt.alter.drop_constraint(name="id_gt_0")
assert "delta.constraints.id_gt_0" not in dt.metadata().configuration
write_deltalake(PATH, pd.DataFrame({"id": [-1]}), mode="append")
assert sorted(DeltaTable(PATH).to_pandas()["id"]) == [-1, 1, 2]
dt.alter.drop_constraint("nope", raise_if_not_exists=False)
