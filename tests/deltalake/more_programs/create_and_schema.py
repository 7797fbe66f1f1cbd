import sys

import pandas as pd
from deltalake import CommitProperties, DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import ArrayType, PrimitiveType

schema = Schema(
    [
        Field("id", PrimitiveType("string"), nullable=False, metadata={"comment": "key"}),
        Field("price", PrimitiveType("integer"), nullable=True),
        Field("tags", ArrayType("string", contains_null=True)),
    ]
)
path = sys.argv[1] + "/created"
dt = DeltaTable.create(
    path,
    schema,
    name="test_name",
    description="test_desc",
    configuration={"delta.appendOnly": "true"},
    commit_properties=CommitProperties(custom_metadata={"userName": "John Doe"}),
)
assert dt.version() == 0 and dt.schema() == schema and dt.file_uris() == []
meta = dt.metadata()
assert (meta.name, meta.description) == ("test_name", "test_desc")
assert meta.configuration == {"delta.appendOnly": "true"} and meta.created_time > 0
assert (
    dt.history(1)[0]["operation"] == "CREATE TABLE" and dt.history(1)[0]["userName"] == "John Doe"
)
assert Schema.from_json(dt.schema().to_json()) == schema
assert dt.schema().fields[0].metadata == {"comment": "key"}

write_deltalake(
    dt, pd.DataFrame({"id": ["a"], "price": pd.array([1], "int32"), "tags": [["x"]]}), mode="append"
)
for bad in (
    lambda: DeltaTable.create(path, schema),
    lambda: dt.delete(),
    lambda: write_deltalake(
        dt,
        pd.DataFrame({"id": [None], "price": pd.array([1], "int32"), "tags": [["x"]]}),
        mode="append",
    ),
):
    try:
        bad()
        raise AssertionError("not reached")
    except DeltaError:
        pass
assert DeltaTable.create(path, schema, mode="ignore").version() == 1
assert dt.to_pandas()["id"].tolist() == ["a"]
