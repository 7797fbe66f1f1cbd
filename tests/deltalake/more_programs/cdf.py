import sys

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/cdf"
write_deltalake(
    path,
    pd.DataFrame({"id": [1, 2, 3], "name": ["a", "b", "c"]}),
    configuration={"delta.enableChangeDataFeed": "true"},
)
dt = DeltaTable(path)
dt.update(updates={"name": "'bb'"}, predicate="id = 2")
dt.delete("id = 3")
(
    dt.merge(pd.DataFrame({"id": [1, 9], "name": ["A", "z"]}), "t.id = s.id", "s", "t")
    .when_matched_update_all()
    .when_not_matched_insert_all()
    .execute()
)
feed = pa.table(dt.load_cdf(starting_version=0).read_all()).to_pylist()
seen = sorted((r["_commit_version"], r["_change_type"], r["id"], r["name"]) for r in feed)
assert seen == [
    (0, "insert", 1, "a"),
    (0, "insert", 2, "b"),
    (0, "insert", 3, "c"),
    (1, "update_postimage", 2, "bb"),
    (1, "update_preimage", 2, "b"),
    (2, "delete", 3, "c"),
    (3, "insert", 9, "z"),
    (3, "update_postimage", 1, "A"),
    (3, "update_preimage", 1, "a"),
]
assert all(r["_commit_timestamp"] is not None for r in feed)

only = pa.table(
    dt.load_cdf(
        starting_version=1, ending_version=2, columns=["id", "_change_type", "_commit_version"]
    ).read_all()
)
assert only.column_names == ["id", "_change_type", "_commit_version"]
assert sorted(only["_commit_version"].to_pylist()) == [1, 1, 2]
assert sorted(dt.to_pandas()["name"]) == ["A", "bb", "z"]
