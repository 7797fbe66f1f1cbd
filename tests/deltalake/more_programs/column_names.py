import sys

import pandas as pd
from deltalake import DeltaTable, QueryBuilder, write_deltalake

path = sys.argv[1] + "/cols"
df = pd.DataFrame(
    {
        "fooBar": ["A001", "A002", "A003"],
        "y--1": [1, 2, 3],
        "with-dash": [1, 1, 2],
        "ünï": ["x", "y", "z"],
        "SELECT": [7, 8, 9],
        "_id": [0, 1, 2],
    }
)
write_deltalake(path, df, partition_by=["fooBar"])
dt = DeltaTable(path)
assert [f.name for f in dt.schema().fields] == list(df.columns)
assert dt.to_pandas().sort_values("_id", ignore_index=True)[list(df.columns)].equals(df)

dt.delete("`y--1` = 1")
assert sorted(dt.to_pandas()["y--1"]) == [2, 3]
dt.update(updates={"`with-dash`": "`with-dash` * 100"}, predicate='"SELECT" = 9')
assert sorted(dt.to_pandas()["with-dash"]) == [1, 200]
(
    dt.merge(
        pd.DataFrame({"fooBar": ["A003", "A009"], "y--1": [33, 99]}),
        'target."fooBar" = source."fooBar"',
        source_alias="source",
        target_alias="target",
    )
    .when_matched_update({"`y--1`": "source.`y--1`"})
    .when_not_matched_insert({'"fooBar"': 'source."fooBar"', "`y--1`": "source.`y--1`"})
    .execute()
)
out = dt.to_pandas().sort_values("fooBar", ignore_index=True)
assert out["fooBar"].tolist() == ["A002", "A003", "A009"]
assert out["y--1"].tolist() == [2, 33, 99]
assert dt.to_pandas(filters=[("ünï", "=", "y")])["_id"].tolist() == [1]
q = (
    QueryBuilder()
    .register("tbl", dt)
    .execute('select "fooBar", "SELECT" from tbl where "ünï" = \'z\'')
)
assert q.read_all().to_struct_array() is not None
assert [p["fooBar"] for p in dt.partitions([("fooBar", "=", "A009")])] == ["A009"]
