# From the documentation of deltalake: integrations/delta-lake-pandas/#schema-enforcement
import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import SchemaMismatchError

PATH = sys.argv[1]

write_deltalake(PATH, pd.DataFrame({"num": [1, 2, 3], "letter": ["a", "b", "c"]}))

df = pd.DataFrame({"num": [5, 6], "animal": ["cat", "dog"]})
for mode in ("append", "overwrite"):
    try:
        write_deltalake(PATH, df, mode=mode)
    except SchemaMismatchError as err:
        assert str(err)
    else:
        raise AssertionError(f"{mode} with a different schema has to fail")

dt = DeltaTable(PATH)
assert dt.version() == 0
assert sorted(dt.to_pandas()["num"]) == [1, 2, 3]
