# From the documentation of deltalake: api/delta_table/delta_table_alterer/
import sys

import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType, StructType

PATH = sys.argv[1]

write_deltalake(PATH, pa.table({"foo": [1, 2]}))
dt = DeltaTable(PATH)

dt.alter.add_columns(
    [
        Field("baz", StructType([Field("bar", PrimitiveType("integer"))])),
        Field("bar", PrimitiveType("integer")),
    ]
)
assert [f.name for f in dt.schema().fields] == ["foo", "baz", "bar"]
assert dt.to_pyarrow_table()["bar"].to_pylist() == [None, None]

dt.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
assert dt.metadata().configuration["delta.enableChangeDataFeed"] == "true"
dt.alter.set_table_name("new_table_name")
dt.alter.set_table_description("new_table_description")
dt.alter.set_column_metadata("foo", {"comment": "the key"})
dt = DeltaTable(PATH)
assert dt.metadata().name == "new_table_name"
assert dt.metadata().description == "new_table_description"
assert dt.schema().fields[0].metadata == {"comment": "the key"}
try:
    dt.alter.set_table_properties({"delta.noSuchKey": "1"})
except DeltaError:
    pass
else:
    raise AssertionError("unknown delta keys are refused by default")
