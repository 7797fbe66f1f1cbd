# From the documentation of deltalake: api/delta_table/#deltalake.DeltaTable.merge
import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(PATH, pa.table({"id": [1, 2], "v": ["a", "b"]}))
dt = DeltaTable(PATH)
source = pa.table({"id": [2, 3], "v": ["B", "C"], "note": ["changed", "new"]})

(
    dt.merge(
        source,
        predicate="t.id = s.id",
        source_alias="s",
        target_alias="t",
        merge_schema=True,
        commit_properties=CommitProperties(custom_metadata={"job": "nightly"}),
    )
    .when_matched_update_all()
    .when_not_matched_insert_all()
    .execute()
)

assert [f.name for f in dt.schema().fields] == ["id", "v", "note"]
rows = sorted(dt.to_pyarrow_table().to_pylist(), key=lambda r: r["id"])
assert rows == [
    {"id": 1, "v": "a", "note": None},
    {"id": 2, "v": "B", "note": "changed"},
    {"id": 3, "v": "C", "note": "new"},
]
assert dt.history(1)[0]["job"] == "nightly"
