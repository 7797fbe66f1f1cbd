# From the documentation of deltalake: api/delta_table/#deltalake.DeltaTable.update
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

df = pd.DataFrame(
    {"id": ["1", "2", "3"], "deleted": [False, False, False], "price": [10.0, 15.0, 20.0]}
)
write_deltalake(PATH, df)
dt = DeltaTable(PATH)

metrics = dt.update(predicate="id = '3'", updates={"deleted": "True"})
assert metrics["num_updated_rows"] == 1
assert metrics["num_copied_rows"] == 2
assert metrics["num_added_files"] == 1 and metrics["num_removed_files"] == 1

metrics = dt.update(updates={"deleted": "True", "id": "concat(id, '_old')"})
assert metrics["num_updated_rows"] == 3
dt.update(predicate="id = '1_old'", new_values={"price": 150.10})
out = dt.to_pandas().sort_values("id", ignore_index=True)
assert out["id"].tolist() == ["1_old", "2_old", "3_old"]
assert out["deleted"].all()
assert out["price"].tolist() == [150.10, 15.0, 20.0]

for kwargs, error in [
    ({}, ValueError),
    ({"updates": {"price": 3}}, TypeError),
    ({"updates": {"price": "1"}, "new_values": {"price": 1}}, ValueError),
]:
    try:
        dt.update(**kwargs)
    except error:
        continue
    raise AssertionError(kwargs)
