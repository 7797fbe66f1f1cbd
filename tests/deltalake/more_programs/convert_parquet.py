import sys

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    Schema,
    convert_to_deltalake,
    write_deltalake,
)
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

data = pa.table({"id": [1, 2, 3], "day": ["mon", "tue", "tue"]})
flat = sys.argv[1] + "/flat"
ds.write_dataset(data, flat, format="parquet")
assert not DeltaTable.is_deltatable(flat)
convert_to_deltalake(
    flat,
    name="converted_table",
    description="parquet to delta",
    commit_properties=CommitProperties(custom_metadata={"userName": "John Doe"}),
)
dt = DeltaTable(flat)
assert dt.metadata().name == "converted_table" and dt.history(1)[0]["userName"] == "John Doe"
assert dt.to_pyarrow_table().sort_by("id") == data
try:
    convert_to_deltalake(flat)
    raise AssertionError("not reached")
except DeltaError:
    convert_to_deltalake(flat, mode="ignore")
hive = sys.argv[1] + "/hive"
ds.write_dataset(data, hive, format="parquet", partitioning=["day"], partitioning_flavor="hive")
part = Schema([Field("day", PrimitiveType("string"))])
for exc, kw in ((DeltaError, {}), (ValueError, {"partition_by": part})):
    try:
        convert_to_deltalake(hive, **kw)
        raise AssertionError("not reached")
    except exc:
        pass
convert_to_deltalake(hive, partition_by=part, partition_strategy="hive")
write_deltalake(hive, pa.table({"id": [4], "day": ["wed"]}), mode="append")
assert {r["id"]: r["day"] for r in DeltaTable(hive).to_pyarrow_table().to_pylist()} == {
    1: "mon",
    2: "tue",
    3: "tue",
    4: "wed",
}
