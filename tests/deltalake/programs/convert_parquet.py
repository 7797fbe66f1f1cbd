# From the documentation of deltalake: api/delta_writer/#deltalake.convert_to_deltalake
import sys

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, Field, Schema, convert_to_deltalake
from deltalake.schema import PrimitiveType

PATH = sys.argv[1]

data = pa.table({"id": [1, 2, 3], "part": ["a", "a", "b"]})
ds.write_dataset(
    data,
    PATH,
    format="parquet",
    partitioning=ds.partitioning(pa.schema([("part", pa.string())]), flavor="hive"),
)
try:
    convert_to_deltalake(PATH, partition_by=Schema([Field("part", PrimitiveType("string"))]))
except ValueError:
    pass
else:
    raise AssertionError("partition_strategy is required with partition_by")

convert_to_deltalake(
    PATH,
    name="converted",
    partition_by=Schema([Field("part", PrimitiveType("string"))]),
    partition_strategy="hive",
)
dt = DeltaTable(PATH)
assert dt.version() == 0 and dt.metadata().name == "converted"
assert dt.metadata().partition_columns == ["part"]
assert sorted(dt.to_pandas()["id"]) == [1, 2, 3]
assert dt.to_pandas(partitions=[("part", "=", "b")])["id"].tolist() == [3]
convert_to_deltalake(PATH, mode="ignore")
assert DeltaTable(PATH).version() == 0
