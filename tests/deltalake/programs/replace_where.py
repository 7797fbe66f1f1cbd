# From the documentation of deltalake: usage/writing/
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

PATH = sys.argv[1]

write_deltalake(PATH, pa.table({"id": ["1", "1", "2"], "value": [1, 2, 3]}))

data = pa.table({"id": pa.array(["1", "1"], pa.string()), "value": pa.array([11, 12], pa.int64())})
write_deltalake(PATH, data, mode="overwrite", predicate="id = '1'")

out = DeltaTable(PATH).to_pandas().sort_values("value", ignore_index=True)
assert out["value"].tolist() == [3, 11, 12]
assert out["id"].tolist() == ["2", "1", "1"]

# data that does not match the predicate is refused
try:
    write_deltalake(
        PATH, pa.table({"id": ["9"], "value": [9]}), mode="overwrite", predicate="id = '1'"
    )
except DeltaError:
    pass
else:
    raise AssertionError("rows outside of the predicate have to be refused")
assert DeltaTable(PATH).version() == 1
