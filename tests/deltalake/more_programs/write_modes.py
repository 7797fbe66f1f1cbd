import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

path = sys.argv[1] + "/modes"
df = pd.DataFrame({"num": [1, 2, 3], "letter": ["a", "b", "c"]})
write_deltalake(path, df)

try:
    write_deltalake(path, df)
except DeltaError:
    pass
else:
    raise AssertionError("mode=error must refuse an existing table")

write_deltalake(path, df, mode="ignore")
assert DeltaTable(path).version() == 0

write_deltalake(path, pd.DataFrame({"num": [8, 9], "letter": ["dd", "ee"]}), mode="append")
dt = DeltaTable(path)
assert dt.version() == 1
assert sorted(dt.to_pandas()["num"]) == [1, 2, 3, 8, 9]

write_deltalake(dt, pd.DataFrame({"num": [11, 22], "letter": ["aa", "bb"]}), mode="overwrite")
assert dt.version() == 2, "the passed table object is refreshed"
assert dt.to_pandas().sort_values("num")["letter"].tolist() == ["aa", "bb"]
assert DeltaTable(path, version=1).to_pandas().shape == (5, 2)
ops = [h["operation"] for h in dt.history()]
assert len(ops) == 3 and ops[0] == "WRITE"
assert dt.history(1)[0]["operationParameters"]["mode"] == "Overwrite"
assert dt.history()[1]["operationParameters"]["mode"] == "Append"
assert dt.count() == 2
