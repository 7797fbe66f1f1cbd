import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

path = sys.argv[1] + "/upderr"
write_deltalake(path, pa.table({"id": [1, 2], "flag": [True, False], "s": ["a", "b"]}))
dt = DeltaTable(path)


def refused(exc, **kw):
    try:
        dt.update(**kw)
    except exc:
        return
    raise AssertionError(f"expected {exc} for {kw}")


refused(ValueError)
refused(ValueError, updates={}, new_values={})
refused(TypeError, new_values={"s": {}})
refused(DeltaError, updates={"flag": "'hello_world'"})
refused(DeltaError, updates={"id": "no_such_column + 1"})
refused(DeltaError, updates={"id": "1"}, predicate="no_such_column = 1")
refused(DeltaError, updates={"id": "1"}, predicate="this is not sql")
assert dt.version() == 0
assert DeltaTable(path).to_pyarrow_table().to_pydict() == {
    "id": [1, 2],
    "flag": [True, False],
    "s": ["a", "b"],
}
dt.update(updates={"id": "CASE WHEN flag THEN id * 2 ELSE NULL END", "s": "upper(s)"})
rows = sorted(dt.to_pyarrow_table().to_pylist(), key=lambda r: r["s"])
assert rows == [{"id": 2, "flag": True, "s": "A"}, {"id": None, "flag": False, "s": "B"}]
