# From the documentation of deltalake: api/transaction/
import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

PATH = sys.argv[1]
APP_ID = "nightly-job"


def load_batch(batch_id: int, data: pa.Table) -> bool:
    if DeltaTable.is_deltatable(PATH):
        done = DeltaTable(PATH).transaction_version(APP_ID)
        if done is not None and done >= batch_id:
            return False
    props = CommitProperties(
        custom_metadata={"userName": "John Doe", "batch": batch_id},
        max_commit_retries=3,
        app_transactions=[Transaction(app_id=APP_ID, version=batch_id)],
    )
    write_deltalake(PATH, data, mode="append", commit_properties=props)
    return True


assert load_batch(1, pa.table({"id": [1, 2]}))
assert load_batch(2, pa.table({"id": [3]}))
assert not load_batch(2, pa.table({"id": [3]}))

dt = DeltaTable(PATH)
assert dt.transaction_version(APP_ID) == 2
assert dt.transaction_version("other") is None
assert sorted(dt.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]
assert [h["userName"] for h in dt.history()] == ["John Doe", "John Doe"]
assert [h["batch"] for h in dt.history()] == [2, 1]
