import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake

path = sys.argv[1] + "/hist"
data = pa.table({"id": ["1", "2"], "price": [10, 20]})
write_deltalake(
    path,
    data,
    mode="append",
    partition_by=["id"],
    commit_properties=CommitProperties(custom_metadata={"userName": "John Doe"}),
)
dt = DeltaTable(path)
props = CommitProperties(custom_metadata={"job": "nightly", "run": "42"}, max_commit_retries=3)
hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
dt.delete("price > 15", commit_properties=props, post_commithook_properties=hooks)
dt.update({"price": "price + 1"}, commit_properties=props)
dt.restore(1, commit_properties=props)

history = dt.history()
assert [h["operation"] for h in history] == ["RESTORE", "UPDATE", "DELETE", "WRITE"]
assert [h["version"] for h in history] == [3, 2, 1, 0]
assert history[-1]["userName"] == "John Doe"
assert all(h["job"] == "nightly" and h["run"] == "42" for h in history[:3])
stamps = [h["timestamp"] for h in history]
assert stamps == sorted(stamps, reverse=True) and stamps[0] > 1_600_000_000_000
assert history[2]["operationParameters"]["predicate"]
assert history[2]["operationMetrics"]["num_deleted_rows"] == 1
assert '"id"' in history[3]["operationParameters"]["partitionBy"]
assert len(dt.history(2)) == 2
assert dt.to_pyarrow_table().to_pylist() == [{"id": "1", "price": 10}]
