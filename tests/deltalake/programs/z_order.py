# From the documentation of deltalake: usage/optimize/delta-lake-z-order/
import sys

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake

PATH = sys.argv[1]

for n, country in enumerate(["AT", "DE", "AT", "DE"]):
    write_deltalake(
        PATH, pa.table({"country": [country] * 3, "n": [n, n + 10, n + 20]}), mode="append"
    )

dt = DeltaTable(PATH)
assert len(dt.file_uris()) == 4
metrics = dt.optimize.z_order(
    ["country"], writer_properties=WriterProperties(compression="ZSTD", compression_level=3)
)

assert metrics["numFilesRemoved"] == 4
assert metrics["numFilesAdded"] == 1
assert metrics["preserveInsertionOrder"] is False
assert len(dt.file_uris()) == 1
assert dt.version() == 4
countries = dt.to_pyarrow_table()["country"].to_pylist()
assert countries == sorted(countries)
last = dt.history(1)[0]
assert last["operation"] == "OPTIMIZE"
assert len(countries) == 12
