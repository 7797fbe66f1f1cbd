# From the documentation of deltalake: usage/merging-tables/#delete
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(PATH, pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}))
dt = DeltaTable(PATH)
source_data = pa.table({"x": [2, 3], "deleted": [False, True]})

metrics = (
    dt.merge(
        source=source_data,
        predicate="target.x = source.x",
        source_alias="source",
        target_alias="target",
    )
    .when_matched_delete(predicate="source.deleted = true")
    .execute()
)
assert metrics["num_target_rows_deleted"] == 1
out = dt.to_pandas().sort_values("x", ignore_index=True)
assert out.to_dict("list") == {"x": [1, 2], "y": [4, 5]}

dt.merge(
    source=source_data,
    predicate="target.x = source.x",
    source_alias="source",
    target_alias="target",
).when_matched_delete().execute()
assert dt.to_pandas().to_dict("list") == {"x": [1], "y": [4]}
