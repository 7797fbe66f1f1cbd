# From the documentation of deltalake: api/delta_table/#deltalake.DeltaTable.create
import sys

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

PATH = sys.argv[1]

schema = pa.schema([pa.field("foo", pa.string()), pa.field("bar", pa.string())])
dt = DeltaTable.create(
    table_uri=PATH,
    schema=schema,
    mode="error",
    partition_by="bar",
    name="my_table",
    description="first table",
    configuration={"delta.logRetentionDuration": "interval 60 days"},
)

assert dt.version() == 0
assert dt.file_uris() == []
meta = dt.metadata()
assert meta.partition_columns == ["bar"]
assert meta.name == "my_table"
assert meta.description == "first table"
assert meta.configuration == {"delta.logRetentionDuration": "interval 60 days"}
assert dt.to_pyarrow_table().num_rows == 0

again = DeltaTable.create(PATH, schema=schema, mode="ignore")
assert again.version() == 0
try:
    DeltaTable.create(PATH, schema=schema)
except DeltaError as err:
    assert str(err)
else:
    raise AssertionError("create with mode='error' has to fail")
