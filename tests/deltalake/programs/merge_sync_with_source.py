# From the documentation of deltalake: usage/merging-tables/#upsert-with-delete
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

write_deltalake(f"{PATH}/a", pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}))
dt = DeltaTable(f"{PATH}/a")
source = pa.table({"x": [2, 3, 5], "y": [5, 8, 11]})
(
    dt.merge(source, "target.x = source.x", source_alias="source", target_alias="target")
    .when_matched_update(updates={"x": "source.x", "y": "source.y"})
    .when_not_matched_insert(updates={"x": "source.x", "y": "source.y"})
    .when_not_matched_by_source_delete()
    .execute()
)
out = dt.to_pandas().sort_values("x", ignore_index=True)
assert out.to_dict("list") == {"x": [2, 3, 5], "y": [5, 8, 11]}

# conditional update of the rows that the source does not have
write_deltalake(f"{PATH}/b", pa.table({"x": [1, 2, 3], "1y": [4, 5, 6]}))
dt = DeltaTable(f"{PATH}/b")
(
    dt.merge(
        pa.table({"x": [2, 3, 4]}),
        "target.x = source.x",
        source_alias="source",
        target_alias="target",
    )
    .when_not_matched_by_source_update(predicate="`1y` > 3", updates={"`1y`": "0"})
    .execute()
)
out = dt.to_pandas().sort_values("x", ignore_index=True)
assert out.to_dict("list") == {"x": [1, 2, 3], "1y": [0, 5, 6]}
