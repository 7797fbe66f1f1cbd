import sys
from datetime import datetime, timezone

import pandas as pd
from deltalake import CommitProperties, DeltaTable, write_deltalake

path = sys.argv[1] + "/upd"
n = 5
df = pd.DataFrame(
    {
        "id": [str(i) for i in range(n)],
        "price": range(n),
        "sold": range(n),
        "price_float": [float(i) for i in range(n)],
        "deleted": [False] * n,
        "ts": [datetime(2024, 1, 1, tzinfo=timezone.utc)] * n,
    }
)
write_deltalake(path, df)
dt = DeltaTable(path)

m = dt.update(
    updates={"deleted": "True"},
    predicate="price > 3",
    commit_properties=CommitProperties(custom_metadata={"userName": "John Doe"}),
)
assert m["num_updated_rows"] == 1 and m["num_copied_rows"] == 4
last = dt.history(1)[0]
assert last["operation"] == "UPDATE" and last["userName"] == "John Doe"

dt.update(updates={"sold": "sold * price", "id": "concat(id, '_1')"})
out = dt.to_pandas().sort_values("price", ignore_index=True)
assert out["sold"].tolist() == [0, 1, 4, 9, 16]
assert out["id"].tolist() == ["0_1", "1_1", "2_1", "3_1", "4_1"]

dt.update(
    new_values={
        "id": "new_id",
        "sold": 100,
        "price_float": 9999.5,
        "deleted": True,
        "ts": datetime(2025, 5, 6, tzinfo=timezone.utc),
    },
    predicate="price = 0",
)
row = dt.to_pandas().sort_values("price").iloc[0]
assert row["id"] == "new_id" and row["sold"] == 100 and row["price_float"] == 9999.5
assert bool(row["deleted"]) and row["ts"] == pd.Timestamp("2025-05-06", tz="UTC")
assert dt.update(updates={"sold": "0"}, predicate="price > 1000")["num_updated_rows"] == 0
assert DeltaTable(path).to_pandas()["sold"].sum() == 100 + 1 + 4 + 9 + 16
