# From the documentation of deltalake: usage/optimize/small-file-compaction-with-optimize/
import sys
from datetime import datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]


def record_observations(date: datetime) -> pa.Table:
    return pa.table(
        {"date": [date.date()] * 10, "timestamp": [date] * 10, "value": list(range(10))}
    )


for i in range(8):
    write_deltalake(
        PATH,
        record_observations(datetime(2021, 1, 1) + timedelta(hours=6 * i)),
        partition_by=["date"],
        mode="append",
    )

dt = DeltaTable(PATH)
assert len(dt.file_uris()) == 8
result = dt.optimize.compact(partition_filters=[("date", "=", "2021-01-01")])
assert result["numFilesAdded"] == 1 and result["numFilesRemoved"] == 4
assert result["partitionsOptimized"] == 1
assert len(dt.file_uris()) == 5
result = dt.optimize.compact()
assert (result["numFilesAdded"], result["numFilesRemoved"]) == (1, 4)
version = dt.version()
again = dt.optimize.compact()
assert again["numFilesAdded"] == 0 and dt.version() == version
assert dt.to_pyarrow_table().num_rows == 80
assert dt.history(1)[0]["operation"] == "OPTIMIZE"
