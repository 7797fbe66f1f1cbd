import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import SchemaMismatchError

path = sys.argv[1] + "/ow"
write_deltalake(
    path,
    pa.table({"utf8": ["bla", "bli"], "n": pa.array([1, 2], pa.int32())}),
    partition_by="utf8",
    name="first",
    description="a table",
)
table_id = DeltaTable(path).metadata().id
new = pa.table({"n": pa.array(["one", "two", "three"]), "when": pa.array([1.5, 2.5, None])})
try:
    write_deltalake(path, new, mode="overwrite")
    raise AssertionError("not reached")
except SchemaMismatchError:
    pass

path2 = sys.argv[1] + "/ow2"
write_deltalake(path2, pa.table({"x": [1, 2, 3]}))
write_deltalake(path2, new, mode="overwrite", schema_mode="overwrite")
dt = DeltaTable(path2)
assert dt.version() == 1
assert dt.to_pyarrow_table().column_names == ["n", "when"]
assert sorted(dt.to_pyarrow_table()["n"].to_pylist()) == ["one", "three", "two"]
dt.load_as_version(0)
assert dt.to_pyarrow_table().to_pydict() == {"x": [1, 2, 3]}
meta = DeltaTable(path).metadata()
assert (meta.id, meta.name, meta.description) == (table_id, "first", "a table")
assert meta.partition_columns == ["utf8"]
