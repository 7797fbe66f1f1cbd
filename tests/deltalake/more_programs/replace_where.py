import sys
from datetime import date

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

path = sys.argv[1] + "/rw"
data = pa.table(
    {
        "p1": ["1", "1", "2", "2"],
        "p2": pa.array([date(2022, 1, 1), date(2022, 1, 2)] * 2, pa.date32()),
        "val": [1, 1, 1, 1],
    }
)
write_deltalake(path, data, mode="overwrite", partition_by=["p1", "p2"])

new = pa.table({"p1": ["1", "2"], "p2": [date(2022, 1, 2)] * 2, "val": [3, 3]})
write_deltalake(path, new, mode="overwrite", predicate="p2 > '2022-01-01'")
order = [("p1", "ascending"), ("p2", "ascending")]
assert DeltaTable(path).to_pyarrow_table().sort_by(order)["val"].to_pylist() == [1, 3, 1, 3]

# predicate on a data column rewrites only matching rows
new = pa.table({"p1": ["9"], "p2": [date(2022, 1, 9)], "val": [3]})
write_deltalake(path, new, mode="overwrite", predicate="val = 3")
rows = DeltaTable(path).to_pyarrow_table().sort_by(order).to_pylist()
assert [(r["p1"], r["val"]) for r in rows] == [("1", 1), ("2", 1), ("9", 3)]
# data outside of the predicate is refused and nothing is committed
version = DeltaTable(path).version()
try:
    write_deltalake(path, new, mode="overwrite", predicate="p1 = '1'")
    raise AssertionError("not reached")
except DeltaError:
    pass
assert DeltaTable(path).version() == version
assert DeltaTable(path).history(1)[0]["operationParameters"]["predicate"]
