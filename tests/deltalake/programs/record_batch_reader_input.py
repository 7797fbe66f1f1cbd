# From the documentation of deltalake: upgrade-guides/guide-1.0.0/#arro3-adoption
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

schema = pa.schema([("id", pa.int64()), ("name", pa.string())])


def batches():
    for start in range(0, 30, 10):
        ids = list(range(start, start + 10))
        yield pa.record_batch([pa.array(ids), pa.array([f"n{i}" for i in ids])], schema=schema)


reader = pa.RecordBatchReader.from_batches(schema, batches())
write_deltalake(PATH, reader)
assert DeltaTable(PATH).to_pyarrow_table().num_rows == 30

one = pa.record_batch([pa.array([100]), pa.array(["x"])], schema=schema)
write_deltalake(PATH, one, mode="append")
write_deltalake(PATH, [one, one], mode="append")
write_deltalake(PATH, pa.table({"id": [200], "name": ["y"]}), mode="append")

ids = sorted(DeltaTable(PATH).to_pyarrow_table()["id"].to_pylist())
assert ids == list(range(30)) + [100, 100, 100, 200]
assert DeltaTable(PATH).version() == 3
