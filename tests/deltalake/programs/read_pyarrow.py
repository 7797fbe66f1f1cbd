# From the documentation of deltalake: usage/querying-delta-tables/
import sys

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

data = pa.table(
    {"value": ["1", "2", "5", "6", "7"], "year": ["2020", "2020", "2021", "2021", "2021"]}
)
write_deltalake(PATH, data, partition_by=["year"])
dt = DeltaTable(PATH)

pdf = dt.to_pandas(partitions=[("year", "=", "2021")], columns=["value"])
assert list(pdf.columns) == ["value"]
assert sorted(pdf["value"]) == ["5", "6", "7"]
tbl = dt.to_pyarrow_table(partitions=[("year", "in", ["2020"])], columns=["value"])
assert sorted(tbl["value"].to_pylist()) == ["1", "2"]

dataset = dt.to_pyarrow_dataset()
condition = (ds.field("year") == "2021") & (ds.field("value") > "5")
assert sorted(dataset.to_table(filter=condition, columns=["value"])["value"].to_pylist()) == [
    "6",
    "7",
]
rows = [r for b in dataset.to_batches(filter=condition, batch_size=1) for r in b.to_pylist()]
assert {"value": "6", "year": "2021"} in rows
assert dataset.count_rows() == 5
