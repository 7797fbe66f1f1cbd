import sys

import pandas as pd
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

path = sys.argv[1] + "/txn"
APP = "nightly-load"


def load_batch(batch_no: int) -> bool:
    """Exactly-once load: skip the batches the table already knows."""
    if DeltaTable.is_deltatable(path):
        done = DeltaTable(path).transaction_version(APP)
        if done is not None and done >= batch_no:
            return False
    write_deltalake(
        path,
        pd.DataFrame({"batch": [batch_no] * 2}),
        mode="append",
        commit_properties=CommitProperties(
            app_transactions=[Transaction(app_id=APP, version=batch_no, last_updated=1700000000)]
        ),
    )
    return True


assert [load_batch(b) for b in (1, 2, 2, 1, 3)] == [True, True, False, False, True]
dt = DeltaTable(path)
assert dt.version() == 2
assert dt.transaction_version(APP) == 3
assert dt.transaction_version("other") is None
assert sorted(dt.to_pandas()["batch"]) == [1, 1, 2, 2, 3, 3]
dt.create_checkpoint()
assert DeltaTable(path).transaction_version(APP) == 3
assert DeltaTable(path, version=0).transaction_version(APP) == 1
