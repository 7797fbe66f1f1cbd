# From the documentation of deltalake: usage/deleting-rows-from-delta-lake-table/
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(PATH, pd.DataFrame({"num": [1, 2, 3, 4], "letter": ["a", "b", "c", "d"]}))

dt = DeltaTable(PATH)
metrics = dt.delete("num > 2")
assert metrics["num_deleted_rows"] == 2
assert metrics["num_copied_rows"] == 2
out = dt.to_pandas().sort_values("num", ignore_index=True)
assert out["letter"].tolist() == ["a", "b"]
assert dt.version() == 1

nothing = dt.delete("num > 100")
assert nothing["num_removed_files"] == 0
assert dt.to_pandas().shape == (2, 2)

dt.delete()
assert dt.to_pandas().empty
assert dt.file_uris() == []
assert DeltaTable(PATH, version=0).to_pandas().shape == (4, 2)
