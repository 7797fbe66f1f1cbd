import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

path = sys.argv[1] + "/dup"
write_deltalake(
    path, pd.DataFrame({"id": ["1", "2", "4"], "price": [1, 2, 4], "note": ["a", "b", "d"]})
)
dt = DeltaTable(path)


def merge(df, pred="t.id = s.id"):
    return dt.merge(df, pred, source_alias="s", target_alias="t")


dup = pd.DataFrame({"id": ["4", "4"], "price": [10, 100], "note": ["x", "y"]})
try:
    merge(dup).when_matched_update_all().execute()
    raise AssertionError("not reached")
except DeltaError:
    pass
assert dt.version() == 0

# the first clause that matches wins
src = pd.DataFrame({"id": ["1", "2"], "price": [11, 22], "note": ["n1", "n2"]})
(
    merge(src)
    .when_matched_update_all(predicate="s.price < 20", except_cols=["note"])
    .when_matched_delete()
    .when_not_matched_insert_all()
    .execute()
)
rows = dt.to_pandas().sort_values("id", ignore_index=True)
assert rows.to_dict("list") == {"id": ["1", "4"], "price": [11, 4], "note": ["a", "d"]}
assert dt.version() == 1 and dt.history(1)[0]["operation"] == "MERGE"
