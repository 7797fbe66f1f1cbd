# From the documentation of deltalake: usage/merging-tables/#upsert
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

target_data = pa.table({"x": [1, 2, 3], "y": [4, 5, 6]})
write_deltalake(PATH, target_data)
dt = DeltaTable(PATH)
source_data = pa.table({"x": [2, 3, 5], "y": [5, 8, 11]})

metrics = (
    dt.merge(
        source=source_data,
        predicate="target.x = source.x",
        source_alias="source",
        target_alias="target",
    )
    .when_matched_update(updates={"x": "source.x", "y": "source.y"})
    .when_not_matched_insert(updates={"x": "source.x", "y": "source.y"})
    .execute()
)

assert metrics["num_source_rows"] == 3
assert metrics["num_target_rows_updated"] == 2
assert metrics["num_target_rows_inserted"] == 1
assert metrics["num_target_rows_deleted"] == 0
assert metrics["num_output_rows"] == 4
out = dt.to_pandas().sort_values("x", ignore_index=True)
assert out["x"].tolist() == [1, 2, 3, 5]
assert out["y"].tolist() == [4, 5, 8, 11]
assert dt.history(1)[0]["operation"] == "MERGE"
