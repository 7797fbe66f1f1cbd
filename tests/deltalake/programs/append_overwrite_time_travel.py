# From the documentation of deltalake: usage/appending-overwriting-delta-lake-table/
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(PATH, pd.DataFrame({"num": [1, 2, 3], "letter": ["a", "b", "c"]}))
write_deltalake(PATH, pd.DataFrame({"num": [8, 9], "letter": ["dd", "ee"]}), mode="append")
write_deltalake(PATH, pd.DataFrame({"num": [11, 22], "letter": ["aa", "bb"]}), mode="overwrite")


def nums(version=None):
    return sorted(DeltaTable(PATH, version=version).to_pandas()["num"].tolist())


assert nums() == [11, 22]
assert nums(1) == [1, 2, 3, 8, 9]
assert nums(0) == [1, 2, 3]

dt = DeltaTable(PATH)
dt.load_as_version(1)
assert dt.version() == 1
assert len(dt.file_uris()) == 2
dt.update_incremental()
assert dt.version() == 2
