# From the documentation of deltalake: usage/writing/
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(PATH, pd.DataFrame({"num": [1, 2], "letter": ["a", "b"]}))

wider = pd.DataFrame({"num": [3], "letter": ["c"], "score": [0.5]})
write_deltalake(PATH, wider, mode="append", schema_mode="merge")
dt = DeltaTable(PATH)
assert [f.name for f in dt.schema().fields] == ["num", "letter", "score"]
out = dt.to_pandas().sort_values("num", ignore_index=True)
assert out["score"].isna().tolist() == [True, True, False]

# fewer columns: the missing ones are filled with null
write_deltalake(PATH, pd.DataFrame({"num": [4]}), mode="append", schema_mode="merge")
out = DeltaTable(PATH).to_pandas().sort_values("num", ignore_index=True)
assert out["letter"].isna().tolist() == [False, False, False, True]

animals = pd.DataFrame({"num": [5, 6], "animal": ["cat", "dog"]})
write_deltalake(PATH, animals, mode="overwrite", schema_mode="overwrite")
out = DeltaTable(PATH).to_pandas()
assert list(out.columns) == ["num", "animal"]
assert sorted(out["animal"]) == ["cat", "dog"]
assert [f.name for f in DeltaTable(PATH, version=0).schema().fields] == ["num", "letter"]
