import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/tmp_table"
write_deltalake(path, pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}))
dt = DeltaTable(path)
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
assert metrics["num_target_rows_inserted"] == 1
assert metrics["num_target_rows_updated"] == 2
assert metrics["num_target_rows_deleted"] == 0
assert dt.to_pandas().sort_values("x")["y"].tolist() == [4, 5, 8, 11]
(
    dt.merge(source_data, "target.x = source.x", source_alias="source", target_alias="target")
    .when_matched_update_all()
    .when_not_matched_insert_all()
    .when_not_matched_by_source_delete()
    .execute()
)
assert dt.to_pandas().sort_values("x", ignore_index=True).to_dict("list") == {
    "x": [2, 3, 5],
    "y": [5, 8, 11],
}
assert dt.version() == 2
assert dt.history(1)[0]["operation"] == "MERGE"
assert dt.history(1)[0]["operationMetrics"]["num_target_rows_deleted"] == 1
