# From the documentation of deltalake: usage/read-cdf/
import sys

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(
    PATH,
    pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}),
    configuration={"delta.enableChangeDataFeed": "true"},
)
dt = DeltaTable(PATH)
dt.update(predicate="id = 2", new_values={"v": "B"})
dt.delete("id = 3")
write_deltalake(PATH, pa.table({"id": [4], "v": ["d"]}), mode="append")

dt = DeltaTable(PATH)
table = dt.load_cdf(starting_version=0, ending_version=3).read_all()
df = pl.DataFrame(table)
assert {"_change_type", "_commit_version", "_commit_timestamp"} <= set(df.columns)
got = sorted(df.select("_commit_version", "_change_type", "id", "v").rows())
assert got == [
    (0, "insert", 1, "a"),
    (0, "insert", 2, "b"),
    (0, "insert", 3, "c"),
    (1, "update_postimage", 2, "B"),
    (1, "update_preimage", 2, "b"),
    (2, "delete", 3, "c"),
    (3, "insert", 4, "d"),
]
tail = dt.load_cdf(starting_version=2, columns=["id", "_change_type"]).read_all()
assert sorted(pl.DataFrame(tail)["id"].to_list()) == [3, 4]
inserts = dt.load_cdf(predicate="_change_type = 'insert'").read_all()
assert pl.DataFrame(inserts).height == 4
none = dt.load_cdf(starting_version=10, allow_out_of_range=True).read_all()
assert pl.DataFrame(none).height == 0
