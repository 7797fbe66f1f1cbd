import sys

import numpy as np
import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/pandas"
df = pd.DataFrame(
    {
        "i": pd.array([1, None, 3], dtype="Int64"),
        "f": [1.5, np.nan, 2.5],
        "s": ["x", None, "z"],
        "b": pd.array([True, None, False], dtype="boolean"),
        "c": pd.Categorical(["lo", "hi", "lo"]),
        "t": pd.to_datetime(["2024-01-01 01:02:03.123456", None, "2024-06-01 00:00:00.000000"]),
        "u": np.array([1, 2, 3], dtype="int16"),
    },
    index=[10, 20, 30],
)
write_deltalake(path, df.reset_index(drop=True))
dt = DeltaTable(path)
assert [(f.name, f.type.type) for f in dt.schema().fields] == [
    ("i", "long"),
    ("f", "double"),
    ("s", "string"),
    ("b", "boolean"),
    ("c", "string"),
    ("t", "timestamp_ntz"),
    ("u", "short"),
]
out = dt.to_pandas()
assert out["s"].isna().tolist() == [False, True, False]
assert out["c"].tolist() == ["lo", "hi", "lo"]
assert out["t"].iloc[0] == pd.Timestamp("2024-01-01 01:02:03.123456") and pd.isna(out["t"].iloc[1])
assert out["u"].dtype == np.int16
mapping = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
typed = dt.to_pandas(types_mapper=mapping.get)
assert typed["i"].dtype == pd.Int64Dtype() and typed["b"].dtype == pd.BooleanDtype()
assert typed["i"].tolist()[0] == 1 and typed["i"].isna().sum() == 1
arrow_backed = dt.to_pandas(types_mapper=pd.ArrowDtype, columns=["i", "f"])
assert list(arrow_backed.columns) == ["i", "f"]
assert arrow_backed["i"].sum() == 4
