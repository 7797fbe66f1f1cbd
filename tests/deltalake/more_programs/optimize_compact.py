import sys
from datetime import timedelta

import pandas as pd
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake

path = sys.argv[1] + "/small_files"
for i in range(6):
    df = pd.DataFrame({"id": [i * 2, i * 2 + 1], "part": ["a", "b"]})
    write_deltalake(path, df, mode="append", partition_by=["part"])
dt = DeltaTable(path)
before = dt.to_pandas().sort_values("id", ignore_index=True)
files = len(dt.file_uris())
files_b = len(dt.file_uris([("part", "=", "b")]))

m = dt.optimize.compact(partition_filters=[("part", "=", "a")])
assert m["numFilesRemoved"] > m["numFilesAdded"] >= 1
assert m["partitionsOptimized"] == 1
assert dt.history(1)[0]["operation"] == "OPTIMIZE"
assert len(dt.file_uris([("part", "=", "b")])) == files_b, "other partition untouched"

dt.optimize.compact(
    min_commit_interval=timedelta(minutes=10),
    writer_properties=WriterProperties(compression="ZSTD", compression_level=3),
    commit_properties=CommitProperties(custom_metadata={"userName": "opt"}),
)
assert dt.history(1)[0]["userName"] == "opt"
assert len(dt.file_uris()) < files
assert dt.to_pandas().sort_values("id", ignore_index=True).equals(before)

version = dt.version()
again = dt.optimize.compact()
assert again["numFilesRemoved"] == 0 and again["numFilesAdded"] == 0
assert dt.version() == version, "nothing to do, no commit"
assert len(DeltaTable(path, version=5).file_uris()) == files
