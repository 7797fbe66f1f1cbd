import sys
from datetime import date

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

schema = Schema(
    [
        Field("date", PrimitiveType("date")),
        Field("foo", PrimitiveType("string")),
        Field("bar", PrimitiveType("integer")),
    ]
)
path = sys.argv[1] + "/md"
dt = DeltaTable.create(path, schema=schema, partition_by=["date"], mode="overwrite")
data = pa.table(
    {
        "date": pa.array([date(2022, 2, 1), date(2022, 2, 2), None]),
        "foo": ["hello", "hi", "nul"],
        "bar": pa.array([1, 2, 3], pa.int32()),
    }
)
for _ in range(2):
    (
        dt.merge(data, predicate="s.date = t.date", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
# null never equals null, so the null row is inserted again by the second merge
t = dt.to_pyarrow_table().sort_by([("bar", "ascending")])
assert t["bar"].to_pylist() == [1, 2, 3, 3]
assert t["date"].to_pylist() == [date(2022, 2, 1), date(2022, 2, 2), None, None]
(
    dt.merge(data.slice(0, 1), "s.date = t.date and t.date = '2022-02-01'", "s", "t")
    .when_matched_delete()
    .execute()
)
assert sorted(dt.to_pyarrow_table()["foo"].to_pylist()) == ["hi", "nul", "nul"]
