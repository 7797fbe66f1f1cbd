import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

path = sys.argv[1] + "/conflict"
for missing in (lambda: DeltaTable(path), lambda: DeltaTable(sys.argv[1] + "/nope/deeper")):
    try:
        missing()
        raise AssertionError("not reached")
    except TableNotFoundError as e:
        assert isinstance(e, DeltaError)
assert not DeltaTable.is_deltatable(path)

write_deltalake(path, pd.DataFrame({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
a, b = DeltaTable(path), DeltaTable(path)

# blind appends never conflict
write_deltalake(a, pd.DataFrame({"id": [4], "v": ["d"]}), mode="append")
write_deltalake(b, pd.DataFrame({"id": [5], "v": ["e"]}), mode="append")
assert DeltaTable(path).version() == 2

# two rewrites of the same file from the same snapshot do
a, b = DeltaTable(path), DeltaTable(path)
a.delete("id = 1")
try:
    b.update(updates={"v": "'changed'"}, predicate="id = 2")
    raise AssertionError("not reached")
except CommitFailedError as e:
    assert isinstance(e, DeltaError)
b = DeltaTable(path)
b.update(updates={"v": "'changed'"}, predicate="id = 2")
assert dict(zip(*DeltaTable(path).to_pandas()[["id", "v"]].values.T)) == {
    2: "changed",
    3: "c",
    4: "d",
    5: "e",
}
