import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

path = sys.argv[1] + "/cdfr"
t = pa.table({"part": ["x", "y"], "n": [1, 2]})
write_deltalake(
    path, t, partition_by=["part"], configuration={"delta.enableChangeDataFeed": "true"}
)
write_deltalake(
    path, pa.table({"part": ["y"], "n": [20]}), mode="overwrite", predicate="part = 'y'"
)
dt = DeltaTable(path)

feed = pa.table(dt.load_cdf(1).read_all()).to_pylist()
changes = sorted((r["_change_type"], r["part"], r["n"]) for r in feed)
assert changes == [("delete", "y", 2), ("insert", "y", 20)]

feed = pa.table(dt.load_cdf(0, predicate="n > 1").read_all()).to_pylist()
assert sorted(r["n"] for r in feed) == [2, 2, 20]
try:
    dt.load_cdf(starting_version=50).read_all()
    raise AssertionError("not reached")
except Exception as e:
    assert not isinstance(e, AssertionError)
empty = dt.load_cdf(starting_version=50, allow_out_of_range=True).read_all()
assert empty.num_rows == 0
# a table without the property has no feed
plain = sys.argv[1] + "/plain"
write_deltalake(plain, t)
DeltaTable(plain).delete("n = 1")
try:
    DeltaTable(plain).load_cdf(0).read_all()
    raise AssertionError("not reached")
except DeltaError:
    pass
