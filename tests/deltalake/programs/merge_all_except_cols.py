# From the documentation of deltalake: api/delta_table/delta_table_merger/
import sys

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(PATH, pa.table({"foo": [1, 2, 3], "bar": [4, 5, 6]}))
dt = DeltaTable(PATH)
new_data = pd.DataFrame({"foo": [1, 4], "bar": [7, 8]})

(
    dt.merge(new_data, "target.foo = source.foo", source_alias="source", target_alias="target")
    .when_matched_update_all(except_cols=["bar"])
    .when_not_matched_insert_all(except_cols=["bar"])
    .execute()
)
rows = sorted(dt.to_pyarrow_table().to_pylist(), key=lambda r: r["foo"])
assert rows[0] == {"foo": 1, "bar": 4}
assert rows[3] == {"foo": 4, "bar": None}

metrics = (
    dt.merge(new_data, "target.foo = source.foo", source_alias="source", target_alias="target")
    .when_matched_update_all(predicate="source.bar > 7")
    .when_not_matched_insert_all()
    .execute()
)
assert metrics["num_target_rows_updated"] == 1
assert metrics["num_target_rows_inserted"] == 0
rows = sorted(dt.to_pyarrow_table().to_pylist(), key=lambda r: r["foo"])
assert [r["bar"] for r in rows] == [4, 5, 6, 8]
