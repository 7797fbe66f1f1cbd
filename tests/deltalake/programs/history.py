# From the documentation of deltalake: usage/examining-table/#history
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(PATH, pd.DataFrame({"id": [1, 2, 3, 4]}))
write_deltalake(PATH, pd.DataFrame({"id": [5]}), mode="append")
dt = DeltaTable(PATH)
dt.delete("id % 2 = 0")
dt.update(updates={"id": "id + 10"}, predicate="id = 5")

history = dt.history()
assert [h["version"] for h in history] == [3, 2, 1, 0]
assert [h["operation"] for h in history[:3]] == ["UPDATE", "DELETE", "WRITE"]
assert history[2]["operationParameters"]["mode"] == "Append"
assert all(isinstance(h["timestamp"], int) for h in history)
assert history[0]["timestamp"] >= history[-1]["timestamp"]

last = dt.history(limit=1)
assert len(last) == 1
assert last[0]["operation"] == "UPDATE"
