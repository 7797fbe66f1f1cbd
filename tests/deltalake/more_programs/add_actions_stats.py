import sys
from datetime import date

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/stats"
write_deltalake(
    path,
    pa.table(
        {
            "p": ["a", "a", "a", "a"],
            "foo": pa.array(["a", "b", None, None]),
            "bar": pa.array([1, 2, 3, None], pa.int64()),
            "d": [date(2022, 1, 1), date(2022, 1, 5), None, None],
            "st": [{"x": 5}, {"x": 7}, {"x": None}, None],
        }
    ),
    partition_by=["p"],
)
dt = DeltaTable(path)
flat = pa.table(dt.get_add_actions(flatten=True)).to_pylist()[0]
assert flat["num_records"] == 4 and flat["size_bytes"] > 0
assert flat["partition.p"] == "a"
assert (flat["min.foo"], flat["max.foo"], flat["null_count.foo"]) == ("a", "b", 2)
assert (flat["min.bar"], flat["max.bar"], flat["null_count.bar"]) == (1, 3, 1)
assert (flat["min.d"], flat["max.d"]) == (date(2022, 1, 1), date(2022, 1, 5))
assert (flat["min.st.x"], flat["max.st.x"], flat["null_count.st.x"]) == (5, 7, 2)

nested = pa.table(dt.get_add_actions()).to_pylist()[0]
assert nested["partition"] == {"p": "a"}
assert nested["min"]["bar"] == 1 and nested["max"]["st"] == {"x": 7}
assert nested["path"] == flat["path"]

path2 = sys.argv[1] + "/some"
write_deltalake(
    path2,
    pa.table({"foo": ["x"], "bar": [1], "baz": [2]}),
    configuration={"delta.dataSkippingStatsColumns": "foo,baz"},
)
cols = pa.table(DeltaTable(path2).get_add_actions(flatten=True)).column_names
assert "min.foo" in cols and "max.baz" in cols and "min.bar" not in cols
