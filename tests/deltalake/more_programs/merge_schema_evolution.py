import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

path = sys.argv[1] + "/ms"
write_deltalake(
    path,
    pa.table(
        {
            "id": ["1", "2", "3", "4", "5"],
            "price": pa.array(range(5), pa.int64()),
            "sold": pa.array(range(5), pa.int32()),
        }
    ),
)
dt = DeltaTable(path)
source = pa.table(
    {
        "id": ["4", "5", "6"],
        "price": [10, 100, 1000],
        "sold": pa.array([10, 20, 30], pa.int32()),
        "customer": ["john", "doe", "max"],
    }
)
(
    dt.merge(
        source,
        predicate="t.id = s.id",
        source_alias="s",
        target_alias="t",
        merge_schema=True,
        commit_properties=CommitProperties(custom_metadata={"userName": "John Doe"}),
    )
    .when_matched_update({"price": "s.price", "sold": "s.sold + 10", "customer": "s.customer"})
    .when_not_matched_insert_all()
    .execute()
)
t = dt.to_pyarrow_table().sort_by("id")
assert t.column_names == ["id", "price", "sold", "customer"]
assert t["price"].to_pylist() == [0, 1, 2, 10, 100, 1000]
assert t["sold"].to_pylist() == [0, 1, 2, 20, 30, 30]
assert t["customer"].to_pylist() == [None, None, None, "john", "doe", "max"]
assert t.schema.field("sold").type == pa.int32()
last = dt.history(1)[0]
assert last["operation"] == "MERGE" and last["userName"] == "John Doe"
assert DeltaTable(path, version=0).schema().fields[-1].name == "sold"
