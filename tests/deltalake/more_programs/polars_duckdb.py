import sys

import duckdb
import polars as pl
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/pl"
df = pl.DataFrame(
    {
        "id": [1, 2, 3],
        "name": ["a", "b", None],
        "cat": pl.Series(["u", "v", "u"], dtype=pl.String),
        "small": pl.Series([1, 2, 3], dtype=pl.Int8),
    }
)
write_deltalake(path, df)
write_deltalake(path, df.with_columns(pl.col("id") + 10), mode="append")

dt = DeltaTable(path)
assert {f.name: f.type.type for f in dt.schema().fields} == {
    "id": "long",
    "name": "string",
    "cat": "string",
    "small": "byte",
}
out = pl.from_arrow(dt.to_pyarrow_table()).sort("id")
assert out["id"].to_list() == [1, 2, 3, 11, 12, 13]
assert out.filter(pl.col("name").is_null())["id"].to_list() == [3, 13]

dataset = dt.to_pyarrow_dataset()
rel = duckdb.arrow(dataset)
assert sorted(rel.filter("id > 2 and small <> 2").project("id").fetchall()) == [(3,), (11,), (13,)]
assert duckdb.sql("select cat, count(*) from dataset group by cat order by cat").fetchall() == [
    ("u", 4),
    ("v", 2),
]

# write a DuckDB result and merge a polars frame
write_deltalake(
    path,
    duckdb.sql("select id, name, cat, small from dataset where id < 3").to_arrow_table(),
    mode="overwrite",
)
dt = DeltaTable(path)
(
    dt.merge(pl.DataFrame({"id": [2], "name": ["B"]}), "t.id = s.id", "s", "t")
    .when_matched_update({"name": "s.name"})
    .execute()
)
assert sorted(dt.to_pandas()["name"]) == ["B", "a"]
